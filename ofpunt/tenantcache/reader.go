// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// A template may read addresses of the query beside its labels. Nobody can observe that: it
// reads them of each query, and uses them in few. So what it may use is read from the Corefile,
// and holds for the questions that the template matches.

// reading is what a template may use of a query beside the question and labels, as bits.
type reading uint8

const (
	// readsClient is the guest's address, readsServer the address and port that it has asked.
	readsClient reading = 1 << iota
	readsServer
	// readsProtocol is whether it is UDP or TCP.
	readsProtocol
	// readsQuery is what hardly two queries have the same: the guest's port, the id, a length.
	readsQuery
)

// reader is a template that reads something, and the questions that it matches (plugin/template).
type reader struct {
	reads         reading
	zones         []string
	qclass, qtype uint16
	matches       []*regexp.Regexp // none for all names
}

// readersOf returns the templates of a block that read something.
func readersOf(block caddyfile.ServerBlock) (readers []reader) {
	d := caddyfile.NewDispenserTokens("", block.Tokens["template"])
	for d.Next() {
		t := reader{qclass: dns.ClassANY, qtype: dns.TypeANY}
		args := d.RemainingArgs() // CLASS TYPE [ZONE...]
		if len(args) > 1 {
			t.qclass, t.qtype = dns.StringToClass[args[0]], dns.StringToType[args[1]]
			args = args[2:]
		}
		t.zones = plugin.OriginsFromArgsOrServerBlock(args, block.Keys)
		for d.NextBlock() {
			property, args := d.Val(), d.RemainingArgs()
			switch property {
			case "match":
				for _, arg := range args {
					if m, err := regexp.Compile(arg); err == nil {
						t.matches = append(t.matches, m)
					}
				}
			case "answer", "additional", "authority":
				t.reads |= readByText(strings.Join(args, " "))
			case "var", "expr":
				t.reads |= readByExpression(strings.Join(args, " "))
			}
		}
		if t.reads != 0 {
			readers = append(readers, t)
		}
	}
	return readers
}

// match reports whether the template may answer a question, whose name is in lower case.
func (t *reader) match(q question) bool {
	return (t.qclass == dns.ClassANY || q.qclass == dns.ClassANY || q.qclass == t.qclass) &&
		(t.qtype == dns.TypeANY || q.qtype == dns.TypeANY || q.qtype == t.qtype) &&
		plugin.Zones(t.zones).Contains(q.name) &&
		(len(t.matches) == 0 || slices.ContainsFunc(t.matches, func(m *regexp.Regexp) bool { return m.MatchString(q.name) }))
}

// reads returns what the templates for a question may use.
func (c *Cache) reads(q question) (reads reading) {
	for i := range c.readers {
		if t := &c.readers[i]; t.match(q) {
			reads |= t.reads
		}
	}
	return reads
}

var (
	actionText   = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	remoteField  = regexp.MustCompile(`\.Remote\b`)
	messageField = regexp.MustCompile(`\.Message\b(\.Question\b)?`)
)

// readByText returns what the text of a template reads (text/template; the fields are those of
// the plugin template).
func readByText(text string) (reads reading) {
	for _, action := range actionText.FindAllString(text, -1) {
		if remoteField.MatchString(action) {
			reads |= readsClient
		}
		for _, m := range messageField.FindAllStringSubmatch(action, -1) {
			if m[1] == "" {
				reads |= readsQuery
			}
		}
	}
	return reads
}

var (
	stringText   = regexp.MustCompile("'[^']*'|\"[^\"]*\"|`[^`]*`")
	functionName = regexp.MustCompile(`\b(?:client_ip|server_ip|server_port|proto|port|id|size|bufsize)\b`)
)

// functionReads are the functions of CoreDNS's package expression that read a query, but for
// metadata and those of the question and DO.
var functionReads = map[string]reading{
	"client_ip": readsClient,
	"server_ip": readsServer, "server_port": readsServer,
	"proto": readsProtocol,
	"port":  readsQuery, "id": readsQuery, "size": readsQuery, "bufsize": readsQuery,
}

// readByExpression returns what an expression reads.
func readByExpression(text string) (reads reading) {
	for _, f := range functionName.FindAllString(stringText.ReplaceAllString(text, ""), -1) {
		reads |= functionReads[f]
	}
	return reads
}
