// Where qemu's virt machine begins: a stack, the vector unit switched on, main(), and power off by PSCI.
.section .text.start, "ax"
.globl _start
_start:
    ldr x0, =stack_top
    mov sp, x0
    mrs x0, cpacr_el1
    orr x0, x0, #(3 << 20)
    msr cpacr_el1, x0
    isb
    bl main
    ldr x0, =0x84000008 // SYSTEM_OFF
    hvc #0
1:  b 1b
