// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// fields are the parts of an answer that are compared.
var fields = []string{"reply", "opcode", "rcode", "aa", "tc", "rd", "ra", "z", "ad", "cd", "question", "answer", "authority", "additional", "edns"}

// decisive are the fields behind which nothing else is compared, if they differ.
var decisive = []string{"reply", "opcode", "rcode"}

// answer has the fields of an answer in words, without TTLs.
type answer map[string]string

// newAnswer puts the answer b to a query into words. b is nil for no answer.
func newAnswer(query, b []byte) answer {
	if b == nil {
		return answer{"reply": "none"}
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return answer{"reply": "malformed"}
	}
	a := answer{"reply": "yes", "opcode": dns.OpcodeToString[m.Opcode], "rcode": dns.RcodeToString[m.Rcode]}
	if len(b) < 12 || !bytes.Equal(b[:2], query[:2]) || !m.Response {
		a["reply"] = "no answer to the query"
	}
	for name, set := range map[string]bool{
		"aa": m.Authoritative, "tc": m.Truncated, "rd": m.RecursionDesired, "ra": m.RecursionAvailable,
		"z": m.Zero, "ad": m.AuthenticatedData, "cd": m.CheckingDisabled,
	} {
		if set {
			a[name] = "set"
		}
	}
	for _, q := range m.Question {
		a["question"] += fmt.Sprintf("%s %s %s ", q.Name, dns.Class(q.Qclass), dns.Type(q.Qtype))
	}
	a["answer"] = linesOf(m.Answer)
	a["authority"] = linesOf(m.Ns)
	a["additional"] = linesOf(m.Extra)
	if o := m.IsEdns0(); o != nil {
		a["edns"] = fmt.Sprintf("version %d size %d flags %04x", o.Version(), o.UDPSize(), o.Hdr.Ttl&0xffff)
		for _, option := range o.Option {
			a["edns"] += fmt.Sprintf(" option %d", option.Option())
		}
	}
	if a["rcode"] == "BADSIG" { // the same number
		a["rcode"] = "BADVERS"
	}
	return a
}

// linesOf returns the records of a section except OPT, sorted, without TTLs: of an SOA record only its owner, of many
// records only their number.
func linesOf(rrs []dns.RR) string {
	var lines []string
	for _, rr := range rrs {
		h := rr.Header()
		if h.Rrtype == dns.TypeOPT {
			continue
		}
		data := strings.TrimPrefix(rr.String(), h.String())
		if h.Rrtype == dns.TypeSOA {
			data = ""
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", strings.ToLower(h.Name), dns.Type(h.Rrtype), data)))
	}
	if len(lines) > 8 {
		return fmt.Sprintf("%d records", len(lines))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// question is a message that all servers get.
type question struct {
	name    string
	network string // udp or tcp
	query   []byte
}

// difference is a field in which the answer of puntdns differs from another server's.
type difference struct {
	question     string
	from         string // the other server
	field        string
	ours, theirs string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: puntdns %q, %s %q", d.question, d.ours, d.from, d.theirs)
}

// reason returns the index of the first reason that explains the difference, -1 for none.
func (d difference) reason() int {
	return slices.IndexFunc(reasons, func(r reason) bool {
		return (r.from == both || r.from == d.from) && r.field == d.field &&
			matches(r.question, d.question) && matches(r.ours, d.ours) && matches(r.theirs, d.theirs)
	})
}

// matches reports whether a regular expression, "" for any text, matches all of a text.
func matches(expr, text string) bool {
	if expr == "" {
		return true
	}
	mu.Lock()
	defer mu.Unlock()
	re := compiled[expr]
	if re == nil {
		re = regexp.MustCompile("^(?:" + expr + ")$")
		compiled[expr] = re
	}
	return re.MatchString(text)
}

var (
	mu       sync.Mutex
	compiled = map[string]*regexp.Regexp{}
)

// compare asks the servers, the first of which is puntdns, and returns how its answer differs. A busy machine may lose an
// answer, so no answer is an answer only if three tries had none.
func (q question) compare(servers []server) (found []difference) {
	answers := make([]answer, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() {
			for range 3 {
				if answers[i] = newAnswer(q.query, s.exchange(q.query, q.network, 700*time.Millisecond)); answers[i]["reply"] != "none" {
					return
				}
			}
		})
	}
	asking.Wait()
	for i, theirs := range answers[1:] {
		ours := answers[0]
		for _, field := range fields {
			if ours[field] != theirs[field] {
				found = append(found, difference{q.name, servers[i+1].name, field, ours[field], theirs[field]})
			}
			if ours[field] != theirs[field] && slices.Contains(decisive, field) {
				break
			}
		}
	}
	return found
}
