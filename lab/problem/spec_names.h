/* spec_names.h: the words of specs, shared by reading and printing. */
#ifndef LAB_SPEC_NAMES_H
#define LAB_SPEC_NAMES_H

typedef struct lab_name {
    const char *text; /* NULL ends a table */
    int value;
} lab_name;

/* If two words share a value, the first one is printed. */
extern const lab_name lab_dtype_names[], lab_bias_dtype_names[], lab_causal_names[],
    lab_align_names[], lab_layout_names[], lab_data_names[], lab_bias_fill_names[],
    lab_d_o_names[];

/* The word for a value; "?" if the table has none. */
const char *lab_name_of(const lab_name *names, int value);

#endif
