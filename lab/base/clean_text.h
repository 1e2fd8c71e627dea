/* clean_text.h: untrusted text on its way to a terminal.
 *
 * File names, plug-in messages, strings of JSON files and arguments may hold control codes,
 * which a terminal obeys. Each becomes a '?', and so does a byte that is not UTF-8. */
#ifndef LAB_CLEAN_TEXT_H
#define LAB_CLEAN_TEXT_H

#include <stdio.h>

/* Clean `text` in place and make it one line: line feeds and tabs become spaces. Never grows;
 * returns `text`. */
char *lab_clean_line(char *text);

/* A stream that cleans what is written to it and passes it on to `under`. Line feeds and tabs
 * stay. Line-buffered if `under` is a terminal. NULL if memory ran out. fclose() it before
 * `under`, which stays open. */
FILE *lab_clean_stream(FILE *under);

#endif
