// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// DigResult is what dig(1) printed.
type DigResult struct {
	Out       string   // all of it
	Status    string   // NOERROR, NXDOMAIN ...; empty without a reply
	ID        string   // of the query, as dig prints it
	Flags     []string // qr, aa ...
	Answer    []dns.RR
	Authority []dns.RR
	Err       error // dig failed: no reply, or wrong arguments
}

// Values returns the data of the answer section's records, in order.
func (r *DigResult) Values() []string {
	vs := make([]string, 0, len(r.Answer))
	for _, rr := range r.Answer {
		vs = append(vs, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return vs
}

// String is the status with the values, the short form for messages.
func (r *DigResult) String() string {
	if r.Err != nil {
		return "no reply"
	}
	return strings.TrimSpace(r.Status + " " + strings.Join(r.Values(), " "))
}

var (
	digHeader = regexp.MustCompile(`(?m)^;; ->>HEADER<<- opcode: \w+, status: (\w+), id: (\d+)$`)
	digFlags  = regexp.MustCompile(`(?m)^;; flags: ([a-z ]*);`)
)

// Dig runs dig inside the namespace, with one try of two seconds unless the
// arguments say otherwise.
func (h *Host) Dig(args ...string) *DigResult {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := h.Exec(ctx, append([]string{"dig", "+time=2", "+tries=1"}, args...)...)
	r := parseDig(out)
	r.Err = err
	return r
}

func parseDig(out string) *DigResult {
	r := &DigResult{Out: out}
	if m := digHeader.FindStringSubmatch(out); m != nil {
		r.Status, r.ID = m[1], m[2]
	}
	if m := digFlags.FindStringSubmatch(out); m != nil {
		r.Flags = strings.Fields(m[1])
	}
	var section *[]dns.RR
	for sc := bufio.NewScanner(strings.NewReader(out)); sc.Scan(); {
		switch line := sc.Text(); {
		case line == ";; ANSWER SECTION:":
			section = &r.Answer
		case line == ";; AUTHORITY SECTION:":
			section = &r.Authority
		case line == "" || line[0] == ';':
			section = nil
		case section != nil:
			// What dns cannot read stays visible in Out.
			if rr, err := dns.NewRR(line); err == nil && rr != nil {
				*section = append(*section, rr)
			}
		}
	}
	return r
}

// Exchange sends a query over UDP from inside the namespace and returns the
// reply and the time it took. The server is a numeric HOST:PORT.
func (h *Host) Exchange(ctx context.Context, m *dns.Msg, server string) (*dns.Msg, time.Duration, error) {
	return h.exchange(ctx, "udp", m, server)
}

// ExchangeTCP is Exchange over TCP.
func (h *Host) ExchangeTCP(ctx context.Context, m *dns.Msg, server string) (*dns.Msg, time.Duration, error) {
	return h.exchange(ctx, "tcp", m, server)
}

func (h *Host) exchange(ctx context.Context, network string, m *dns.Msg, server string) (*dns.Msg, time.Duration, error) {
	conn, err := h.Dial(ctx, network, server)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// The client's own timeout is two seconds; a context says more precisely.
	c := &dns.Client{Net: network}
	if d, ok := ctx.Deadline(); ok {
		c.Timeout = time.Until(d)
	}
	r, rtt, err := c.ExchangeWithConnContext(ctx, m, &dns.Conn{Conn: conn})
	if err != nil {
		return r, rtt, fmt.Errorf("%s: ask %s over %s: %w", h.Name, server, network, err)
	}
	return r, rtt, nil
}
