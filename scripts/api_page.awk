# api_page.awk: the reference of docs/api.md, from the comments and declarations of a header.
#
#   awk -f scripts/api_page.awk include/attest.h
#
# A comment and the declarations that follow it up to a blank line are one entry. Indented lines of a comment are printed as
# code, lines `name   text` as a list. What the preprocessor needs is left out, except the macros that callers use.

function print_wrapped(text, indent,    words, n, i, line) {
    n = split(text, words, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(words[i]) > 118 && words[i] !~ /^([-+*|>#]|[0-9]+\.)$/) {
            print line
            line = indent words[i]
        } else
            line = line == "" ? words[i] : line " " words[i]
    }
    if (line != "")
        print line
}

# Names of the interface as code; asterisks as they are.
function marked(text,    out, before) {
    out = ""
    gsub(/\*/, "\\*", text)
    while (match(text, /(att_[a-z0-9_]+(\(\))?|ATT_[A-Z0-9_]+|ATTEST_[A-Z0-9_]+)/)) {
        before = substr(text, 1, RSTART - 1)
        if (before ~ /[`A-Za-z0-9_]$/)
            out = out before substr(text, RSTART, RLENGTH)
        else
            out = out before "`" substr(text, RSTART, RLENGTH) "`"
        text = substr(text, RSTART + RLENGTH)
    }
    return out text
}

function flush_paragraph() {
    if (paragraph == "")
        return
    print_wrapped(paragraph, item ? "  " : "")
    paragraph = ""
}

function set_code(on) {
    if (on == code)
        return
    flush_paragraph()
    if (on && !blank)
        print ""
    print "```"
    code = on
    blank = 0
    item = 0
}

# A line of a comment, without its frame.
function comment_line(line) {
    if (line ~ /^ *$/) {
        flush_paragraph()
        if (code) {
            pending = pending "\n"
            return
        }
        if (!blank)
            print ""
        blank = 1
        item = 0
        return
    }
    if (line ~ /^    / && !item) {
        set_code(1)
        printf "%s", pending
        pending = ""
        sub(/^    /, "", line)
        print line
        return
    }
    if (code) {
        set_code(0)
        print ""
        blank = 1
    }
    pending = ""
    if (line ~ /^ ? ?[A-Za-z_]+   *[^ ]/ && line ~ /^ ? ?[A-Za-z_]+  /) { # name   text
        flush_paragraph()
        if (!item && !blank)
            print ""
        sub(/^ */, "", line)
        paragraph = "- **" substr(line, 1, index(line, " ") - 1) "**:"
        sub(/^[^ ]+ +/, "", line)
        paragraph = paragraph " " marked(line)
        item = 1
        blank = 0
        return
    }
    if (item && line !~ /^ /) { # prose behind a list
        flush_paragraph()
        print ""
        item = 0
    }
    sub(/^ */, "", line)
    paragraph = paragraph == "" ? marked(line) : paragraph " " marked(line)
    blank = 0
}

function print_comment(text,    lines, n, i) {
    code = item = 0
    blank = 1
    paragraph = pending = ""
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++)
        comment_line(lines[i])
    flush_paragraph()
    set_code(0)
    if (!blank || paragraph != "")
        print ""
}

# What a declaration declares.
function name_of(text,    flat, name) {
    flat = text
    gsub(/\/\*[^*]*\*\//, "", flat) # comments in it
    gsub(/\n/, " ", flat)
    if (flat ~ /^#define /) {
        sub(/^#define +/, "", flat)
        match(flat, /^[A-Za-z0-9_]+/)
        name = substr(flat, 1, RLENGTH)
        return flat ~ /^[A-Za-z0-9_]+\(/ ? name "()" : name
    }
    if (flat ~ /^ATT_API /) {
        match(flat, /att_[a-z0-9_]+\(/)
        return substr(flat, RSTART, RLENGTH) ")"
    }
    if (flat ~ /^enum /) {
        match(flat, /ATT_[A-Z0-9_]+ = /)
        return substr(flat, RSTART, RLENGTH - 3)
    }
    match(flat, /att_[a-z0-9_]+;/)
    return substr(flat, RSTART, RLENGTH - 1)
}

function end_entry(    title, i) {
    if (comment == "" && declarations == 0)
        return
    if (declarations > 0) {
        title = ""
        for (i = 1; i <= declarations; i++)
            if (index(title, "`" name_of(declaration[i]) "`") == 0)
                title = title (title == "" ? "" : ", ") "`" name_of(declaration[i]) "`"
        print "### " title
        print ""
    }
    if (comment != "")
        print_comment(comment)
    if (declarations > 0) {
        print "```c"
        for (i = 1; i <= declarations; i++) {
            if (sub(/^ATT_API /, "", declaration[i]))
                gsub(/\n        /, "\n", declaration[i])
            print declaration[i]
        }
        print "```"
        print ""
    }
    comment = ""
    declarations = 0
}

function add_comment_line(line) {
    sub(/ *\*\/$/, "", line)
    if (line ~ /SPDX-License-Identifier/)
        return
    comment = comment == "" ? line : comment "\n" line
}

BEGIN { declarations = 0 }

in_comment {
    last = /\*\/$/
    sub(/^ \*/, "")
    sub(/^ /, "")
    add_comment_line($0)
    in_comment = !last
    next
}
in_declaration {
    declaration[declarations] = declaration[declarations] "\n" $0
    if (macro ? !/\\$/ : (open ? /^}.*;$/ : /;$/))
        in_declaration = 0
    next
}
/^\/\* -+ [a-z]+ \*\/$/ {
    end_entry()
    print "## " $3
    print ""
    next
}
/^\/\*/ {
    end_entry()
    in_comment = !/\*\/$/
    sub(/^\/\* ?/, "")
    add_comment_line($0)
    next
}
/^#define ATTEST_H/ || /^#define ATT_API/ { next }
/^#define / || /^typedef / || /^enum / || /^ATT_API / {
    declaration[++declarations] = $0
    macro = /^#define /
    open = /{$/
    in_declaration = macro ? /\\$/ : open || !/;$/
    next
}
/^$/ { end_entry() }
END { end_entry() }
