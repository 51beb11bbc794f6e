/* What main.c says, on a terminal (console_linux.c) or a serial port (console_bare.c). */
#ifndef CONSOLE_H
#define CONSOLE_H

void say(const char *text);
void say_number(long value);

#endif
