// SPDX-License-Identifier: Apache-2.0

package main

// reason explains differences of puntdns from another server in one field. Each text is a regular expression for the whole
// text of the difference; an empty one matches all.
type reason struct {
	from, field            string // as they are
	question, ours, theirs string
	why                    string
}

// both stands for each server but puntdns.
const both = "CoreDNS and Unbound"

// how matches the ways in which a name and type are asked.
const how = `(?: TCP| EDNS DO)?`

// meta matches the types that no record of a zone has.
const meta = `\S+ IN (?:MAILB|OPT|TSIG|TKEY)` + how

// private matches names that the plugin private answers (RFC 6303, RFC 6761, RFC 7686, RFC 8375).
const private = `(?:localhost\. IN A|\S+\.in-addr\.arpa\. IN PTR|x\.(?:onion|invalid|home\.arpa)\. IN A)` + how

// reasons has the known differences. The first that matches counts.
var reasons = []reason{
	// Questions that puntdns does not look up.
	{both, "rcode", meta, "NOTIMP|FORMERR", "", "puntdns answers MAILB with NOTIMP, and OPT, TSIG and TKEY with FORMERR: no record of a zone has these types (RFC 6895, section 3.1)."},
	{"CoreDNS", "rcode", `\S+outside\. IN [AI]XFR` + how, "REFUSED", "NOERROR|NXDOMAIN", "puntdns refuses zone transfers. CoreDNS forwards the question."},
	{"CoreDNS", "rcode", `\S+example\. with class (?:2|3|4|4711)`, "REFUSED", "NOERROR|NXDOMAIN", "Names of OVN have class IN alone. The plugin file of CoreDNS ignores the class."},
	{"Unbound", "rcode", `\S+outside\. with class (?:2|3|4|4711)`, "NOERROR|NXDOMAIN", "REFUSED", "forward asks the upstream in any class. Unbound refuses classes other than IN."},
	{"CoreDNS", "rcode", `\S+ with class (?:0|254|255)`, "FORMERR", "NOERROR|NXDOMAIN", "puntdns answers class 0, NONE and ANY with FORMERR. CoreDNS ignores the class."},
	{"Unbound", "rcode", `\S+ with class (?:0|254)`, "FORMERR", "REFUSED", "puntdns answers class 0 and NONE with FORMERR. Unbound refuses them."},
	{"Unbound", "rcode", `\S+ with class 255`, "FORMERR", "NOERROR|NXDOMAIN", "puntdns answers class ANY with FORMERR. Unbound looks the name up in class IN, but not in its zone."},
	{"CoreDNS", "reply", `\S+example\. with opcode 4`, "yes", "none", "puntdns answers NOTIFY with NOTIMP. The plugin file of CoreDNS sends no answer."},
	{"CoreDNS", "rcode", `\S+outside\. with opcode 4`, "NOTIMP", "NOERROR|NXDOMAIN", "puntdns answers NOTIFY with NOTIMP. CoreDNS forwards it as a query."},
	{"Unbound", "rcode", `\S+ with opcode 4`, "NOTIMP", "REFUSED", "puntdns answers NOTIFY with NOTIMP. Unbound refuses it."},
	{"Unbound", "rcode", `(?:www|nosuch)\.outside\. with no RD`, "NOERROR|NXDOMAIN", "REFUSED", "forward asks the upstream without RD too. Unbound refuses a query without RD for a name outside its zones."},

	// Messages with mistakes.
	{"CoreDNS", "rcode", `\S+ with (?:EDNS twice|ANCOUNT 1|ARCOUNT 1)`, "FORMERR", "NOERROR|NXDOMAIN", "puntdns answers two OPT records (RFC 6891, section 6.1.1) and missing records with FORMERR. CoreDNS ignores the mistake."},
	{"CoreDNS", "rcode", `\S+ with the header alone`, "FORMERR", "SERVFAIL", "puntdns answers a message without its question with FORMERR. CoreDNS looks an empty name up."},
	{"Unbound", "reply", `\S+ with (?:QDCOUNT 2|cut in the question|a pointer to itself|a label of type 0x40)`, "yes", "malformed", "FORMERR of puntdns is a whole message. FORMERR of Unbound repeats the bytes of the query."},
	{"Unbound", "rcode", `\S+ with (?:TC|all flags but QR|a record in the (?:answer|authority|additional))`, "NOERROR|NXDOMAIN", "FORMERR", "puntdns ignores TC, and one record in a section, as CoreDNS does. Unbound answers FORMERR."},
	{"Unbound", "question", `\S+ with two questions`, "", `(\S+ IN A ){2}`, "FORMERR of puntdns for two questions has no question section."},
	{"Unbound", "edns", `\S+ with ARCOUNT 1`, "", ".+", "The missing record is no OPT record, so FORMERR of puntdns has none either."},
	{"CoreDNS", "question", `\S+ with opcode \d+`, `\S+ IN A `, "", "NOTIMP of puntdns has the question. CoreDNS sends a header alone."},
	{both, "rd", `\S+ with opcode \d+`, "", "set", "puntdns repeats RD for queries alone, not for other opcodes."},

	// Flags.
	{"CoreDNS", "ra", "", "set", "", "puntdns sets RA in all answers of a server block that forwards; nslookup needs it. The plugin file of CoreDNS sets none."},
	{"Unbound", "ra", `\S+ IN (?:[AI]XFR|OPT|TSIG|TKEY)` + how, "set", "", "puntdns sets RA in all answers of a server block that forwards. Unbound sets none in errors."},
	{"Unbound", "ra", `\S+ with (?:ANCOUNT 1|QDCOUNT 0|EDNS twice|no question|two questions|the header alone)`, "set", "", "puntdns sets RA in FORMERR too. Unbound sets none."},
	{"Unbound", "ra", `\S+example\. with no RD`, "set", "", "puntdns sets RA without RD too. Unbound sets none in answers of its zone without RD."},
	{"CoreDNS", "tc", `many\.example\. IN A`, "", "set", "29 addresses fit 512 bytes. CoreDNS adds NS records, and truncates."},

	// EDNS.
	{"CoreDNS", "edns", `\S+ with EDNS (?:size \d+|version \d+.*|unknown flags)`, "version 0 size 1232 flags [08]000", "", "The OPT record of puntdns has its own size, and DO as its only flag. CoreDNS repeats size and flags of the query, or sends 0 for another version."},

	// Names.
	{"CoreDNS", "rcode", private, "NOERROR", "NXDOMAIN", "The plugin private answers localhost, and ovnhosts the addresses of its names. CoreDNS asks the upstream."},
	{"CoreDNS", "authority", private, ".+", ".+", "The plugin private denies names of private zones. CoreDNS asks the upstream."},
	{"CoreDNS", "aa", private, "set", "", "The plugin private is authoritative for private zones. CoreDNS asks the upstream."},
	{"Unbound", "rcode", `9\.0\.0\.10\.in-addr\.arpa\. IN PTR` + how, "NOERROR", "NXDOMAIN", "ovnhosts answers PTR from the addresses of its names. A zone file does not."},
	{"Unbound", "rcode", `\S+ CH TXT` + how, "NXDOMAIN", "NOERROR|REFUSED", "Without the plugin chaos puntdns forwards names of class CH. Unbound answers them."},
	{"Unbound", "rcode", `example\. IN DS` + how, "NOERROR", "NXDOMAIN", "Only the parent has DS. puntdns asks the upstream, and replaces its NXDOMAIN for a zone that exists."},
	{"Unbound", "rcode", `miss\.example\. IN A` + how, "NXDOMAIN", "NOERROR", "The rcode is of the last name of a chain (RFC 6604, section 3). Unbound gives the rcode of the first."},
	{"Unbound", "rcode", `loop\.example\. IN A` + how, "SERVFAIL", "NOERROR", "A loop of aliases is SERVFAIL. Unbound answers with the alias."},
	{"Unbound", "answer", `out\.example\. IN A` + how, ".+, www.+", "", "puntdns looks up the target of an alias outside. Unbound leaves it to the client, for a zone of its own."},
	{"Unbound", "authority", `(?:out\.example\. IN TXT|www\.example\. IN SRV)` + how, ".+ SOA", "", "puntdns adds the SOA record of the target's zone (RFC 2308, section 2.2). Unbound adds none behind an alias."},
	{"CoreDNS", "authority", `out\.example\. IN TXT` + how, `outside\. SOA`, `example\. SOA`, "The SOA record is of the target's zone. CoreDNS gives the one of the alias."},
	{"CoreDNS", "authority", "", "|.+ SOA", `example\. NS ns\.dns\.example\.`, "puntdns adds no NS records to an answer. The plugin file of CoreDNS does."},
	{both, "answer", `(?:db\.)?example\. IN ANY` + how, ".+", "", "ANY has all records of the name. CoreDNS has no data for it, Unbound a part of the types."},
	{"CoreDNS", "authority", `(?:db\.)?example\. IN ANY` + how, "", `example\. SOA`, "ANY has all records of the name. CoreDNS has no data for it."},
	{both, "additional", `example\. IN ANY` + how, `ns\.dns\.example\. A 10\.0\.0\.53`, "", "puntdns adds the address of the name server to NS records, for ANY too."},
	{"Unbound", "additional", `(?:db\.example\. IN MX|_http\._tcp\.example\. IN SRV)` + how, ".+", "", "puntdns adds the addresses of targets (RFC 2782). Unbound adds none from its zone."},
	{"Unbound", "answer", `huge\.example\. IN A(?: EDNS DO)?`, `\d+ records`, "", "A truncated answer of puntdns has the records that fit. Unbound sends none."},
}
