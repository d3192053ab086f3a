# SPDX-License-Identifier: Apache-2.0
#
# Makes of the README of a plugin what a manual page of section 7 has, in Markdown still: the
# variable plugin is its name, and own has the names of all plugins with such a page, with a space
# around each. The name is that of the page, and what the Corefile takes comes before the
# description.

# reference returns a plugin's page, or the name itself for a plugin of CoreDNS.
function reference(name) {
	return index(own, " " name " ") ? "**puntdns-" name "**(7)" : "*" name "*"
}
# pages puts references in the place of the plugins that a line names in italics.
function pages(line, out) {
	while (match(line, /\*[a-z]+\*/)) {
		out = out substr(line, 1, RSTART - 1) reference(substr(line, RSTART + 1, RLENGTH - 2))
		line = substr(line, RSTART + RLENGTH)
	}
	return out line
}

NR == 1 { next } # the title is that of the page
/^(~~~|```)/ { fenced = !fenced }
/^## / && !fenced {
	section = substr($0, 4)
	if (section == "Syntax") next
	if (section == "Description") {
		held = $0
		next
	}
}
section == "Name" && /^\*/ {
	sub("^\\*" plugin "\\*", "puntdns-" plugin)
	sub(/\.$/, "")
}
section == "See Also" && !/^## / {
	if (!seen) {
		seen = 1
		$0 = "puntdns(8), " $0
	}
	$0 = pages($0)
}
# The description waits until the first block of the syntax has been printed.
section == "Description" { held = held "\n" $0; next }
section == "Syntax" && !synopsis {
	if (/^(~~~|```)/ && !block) {
		block = 1
		print "## Synopsis"
	} else if (/^(~~~|```)/) {
		synopsis = 1
		print
		print ""
		print held
		next
	}
	if (block) print
	next
}
section == "Syntax" {
	# What stands below the block is about its properties, if there is any.
	if (!properties && /[^ ]/) {
		properties = 1
		print "## Properties"
	}
}
{ print }
