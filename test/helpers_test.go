// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// resolvers are the resolver addresses, one of each family.
var resolvers = []string{resolver4, resolver6}

// exchange asks a resolver over UDP; it may run on any goroutine.
func exchange(ctx context.Context, g *lab.Guest, resolver, name string, qtype uint16) (*dns.Msg, error) {
	r, _, err := g.Exchange(ctx, new(dns.Msg).SetQuestion(name, qtype), net.JoinHostPort(resolver, "53"))
	return r, err
}

// inShort is the status and the data of an answer.
func inShort(r *dns.Msg) string {
	words := []string{dns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		words = append(words, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(words, " ")
}

// follows commits a change to a database and asks until the answer is what it
// should bring, which has to be within a second of the commit.
func follows(t *testing.T, g *lab.Guest, name string, qtype uint16, want string, commit func()) {
	t.Helper()
	commit()
	committed := time.Now()
	ctx := within(t, wait)
	for i := 0; ; i++ {
		r, err := exchange(ctx, g, resolvers[i%len(resolvers)], name, qtype)
		took := time.Since(committed)
		switch {
		case err != nil:
			t.Fatalf("%s %s: %v", name, dns.TypeToString[qtype], err)
		case inShort(r) != want && took > wait/2:
			t.Fatalf("%s %s: %s, want %s", name, dns.TypeToString[qtype], inShort(r), want)
		case inShort(r) != want:
		case took > time.Second:
			t.Errorf("%s %s: %s only %s after the commit", name, dns.TypeToString[qtype], want, took)
			return
		default:
			t.Logf("%s %s: %s, %s after the commit", name, dns.TypeToString[qtype], want, took)
			return
		}
	}
}

// emptyPort adds a logical port that no guest is bound to.
func emptyPort(l *lab.Lab, sw, port, addresses, hostname string, settings ...string) {
	args := []string{"lsp-add", sw, port, "--", "lsp-set-addresses", port, addresses}
	if !strings.Contains(addresses, "dynamic") {
		args = append(args, "--", "lsp-set-port-security", port, addresses)
	}
	args = append(args, "--", "set", "Logical_Switch_Port", port, "options:hostname="+hostname)
	l.NBCTL(append(args, settings...)...)
}
