# SPDX-License-Identifier: Apache-2.0
#
# Breaks the lines of long cells in the tables of a manual page, which go-md2man leaves in one
# piece where a cell has bold words in it: tbl(1) does so with what stands between T{ and T}. Such a
# cell is not adjusted to its width, and a name that is longer may be broken after each of its dots.

# breakable returns a text whose long words may be broken after dots.
function breakable(text, word, n, i, out) {
	n = split(text, word, " ")
	for (i = 1; i <= n; i++) {
		if (length(word[i]) > 24) gsub(/[.]/, ".\\:", word[i])
		out = out (i > 1 ? " " : "") word[i]
	}
	return out
}
# cells prints a row again.
function cells(row, cell, n, i, line) {
	n = split(row, cell, "\t")
	line = ""
	for (i = 1; i <= n; i++) {
		sub(/ +$/, "", cell[i])
		if (length(cell[i]) > 24) cell[i] = "T{\n.na\n" breakable(cell[i]) "\nT}"
		line = line (i > 1 ? "\t" : "") cell[i]
	}
	print line
}
/^\.TS$/ { table = 1; print; next }
/^\.TE$/ { table = 0 }
!table { print; next }
# The options and the formats of the columns. The last one takes the room that there is.
/^allbox;$/ { print; next }
/^(l )+\.?$/ || /^(l )+l \.$/ { sub(/l ?\.$/, "lx ."); print; next }
# A row goes on while one of its cells is open.
{
	if (open && !sub(/^T}/, "")) {
		row = row $0 " "
		next
	}
	row = row $0
	open = sub(/T{$/, "", row)
	if (!open) {
		cells(row)
		row = ""
	}
}
