#!/bin/sh
# A C++ compiler, $CXX, that finds the parts of kiln's programs in the folder $KILN_TEST_OBJECTS, if that is set, and compiles
# none of them. It adds the command of each program to the file $KILN_TEST_LOG, if that is set.
for word; do
    [ "$before" = -o ] && made=$word
    before=$word
done
case $made in
    *.o) [ -z "$KILN_TEST_OBJECTS" ] || exec cp "$KILN_TEST_OBJECTS/${made##*/}" "$made" ;;
    *) [ -z "$KILN_TEST_LOG" ] || echo "$@" >>"$KILN_TEST_LOG" ;;
esac
exec "${CXX:-c++}" "$@"
