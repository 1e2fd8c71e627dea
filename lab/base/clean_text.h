/* clean_text.h: text from outside on its way to a terminal.
 *
 * Names of files, messages of plug-ins, strings of JSON files and arguments may hold control codes, which a terminal obeys. Each
 * becomes a '?', and so does a byte that is no UTF-8. */
#ifndef LAB_CLEAN_TEXT_H
#define LAB_CLEAN_TEXT_H

#include <stdio.h>

/* Clean `text` in place and make it one line: line feeds and tabs become spaces. Never grows; returns `text`. */
char *lab_clean_line(char *text);

/* A stream that cleans what is written to it and passes it on to `under`; line feeds and tabs stay. Lines at a time where
 * `under` is a terminal. NULL where memory ran out. fclose() it before `under`, which stays open. */
FILE *lab_clean_stream(FILE *under);

#endif
