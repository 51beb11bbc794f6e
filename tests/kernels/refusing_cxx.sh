#!/bin/sh
# A C++ compiler, $CXX, that fails at programs of a library whose header holds one of the lines of $KILN_TEST_REFUSED. With
# $KILN_TEST_NAMES it says what it fails at. It adds a line to the file $KILN_TEST_LOG for each program.
for word; do
    case $word in
        -DKILN_LIBRARY_HEADER=*) header=$(printf %s "${word#*=}" | tr -d '"') ;;
    esac
done
if [ -n "$header" ]; then
    echo "$header" >>"$KILN_TEST_LOG"
    if lines=$(grep -F -e "$KILN_TEST_REFUSED" "$header"); then
        echo "ld: refused${KILN_TEST_NAMES:+: $lines}" >&2
        exit 1
    fi
fi
exec "${CXX:-c++}" "$@"
