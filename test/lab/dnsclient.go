// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// DigResult is an answer as dig(1) prints it.
type DigResult struct {
	Out       string   // all of it, or why there is none
	Status    string   // NOERROR, NXDOMAIN ...; empty without a reply
	ID        string   // of the query, as dig prints it
	Flags     []string // qr, aa ...
	Answer    []dns.RR
	Authority []dns.RR
	Err       error // no reply, or wrong arguments
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

// Dig asks from inside the namespace as dig does, with one try of two seconds unless the arguments say
// otherwise. A process costs more than all else that a test does for a question, so dig itself runs only
// for arguments that digQuestion lacks.
func (h *Host) Dig(args ...string) *DigResult {
	if q := newDigQuestion(args); q != nil {
		return q.ask(h)
	}
	return h.DigProgram(args...)
}

// DigProgram is Dig by dig(1), whatever the arguments.
func (h *Host) DigProgram(args ...string) *DigResult {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := h.Exec(ctx, append([]string{"dig", "+time=2", "+tries=1"}, args...)...)
	r := parseDig(out)
	r.Err = err
	return r
}

// digQuestion is what dig(1) asks with its most common arguments.
type digQuestion struct {
	msg      *dns.Msg
	server   string // HOST:PORT
	network  string
	ignoreTC bool
	time     time.Duration // of a try
	tries    int
}

// newDigQuestion returns nil for arguments that it does not know.
func newDigQuestion(args []string) *digQuestion {
	q := &digQuestion{msg: new(dns.Msg), time: 2 * time.Second, tries: 1}
	name, qtype, server, port := "", dns.TypeNone, "", "53"
	edns, cookie, recurse := true, true, true
	for i := 0; i < len(args); i++ {
		arg, value, _ := strings.Cut(args[i], "=")
		number, err := strconv.Atoi(value)
		known := dns.StringToType[strings.ToUpper(arg)]
		switch {
		case arg == "+tcp":
			q.network = "tcp"
		case arg == "+notcp":
			q.network = "udp"
		case arg == "+ignore":
			q.ignoreTC = true
		case arg == "+noedns":
			edns = false
		case arg == "+nocookie":
			cookie = false
		case arg == "+norecurse":
			recurse = false
		case arg == "+time" && err == nil:
			q.time = time.Duration(number) * time.Second
		case arg == "+tries" && err == nil:
			q.tries = number
		case arg == "-p" && i+1 < len(args):
			i++
			port = args[i]
		case strings.HasPrefix(arg, "@") && server == "":
			server = arg[1:]
		case strings.ContainsAny(arg[:min(1, len(arg))], "+-@"):
			return nil
		case name == "" && known == dns.TypeNone:
			name = args[i]
		case name != "" && qtype == dns.TypeNone:
			qtype = known
			if known == dns.TypeNone || known == dns.TypeAXFR || known == dns.TypeIXFR {
				return nil
			}
		default:
			return nil
		}
	}
	if _, err := netip.ParseAddr(server); err != nil || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || r > '~' }) {
		return nil
	}
	if qtype == dns.TypeNone {
		qtype = dns.TypeA
	}
	if q.network == "" {
		q.network = "udp"
		if qtype == dns.TypeANY {
			q.network = "tcp"
		}
	}
	q.server = net.JoinHostPort(server, port)
	q.msg.SetQuestion(dns.Fqdn(name), qtype)
	q.msg.RecursionDesired, q.msg.AuthenticatedData = recurse, true
	if edns {
		q.msg.SetEdns0(1232, false)
		if cookie {
			q.msg.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: fmt.Sprintf("%016x", rand.Uint64())}}
		}
	}
	return q
}

func (q *digQuestion) ask(h *Host) *DigResult {
	var r *dns.Msg
	err := errors.New("no try")
	once := func(network string) {
		ctx, cancel := context.WithTimeout(context.Background(), q.time)
		defer cancel()
		r, _, err = h.exchange(ctx, network, q.msg, q.server)
	}
	for i := 0; i < q.tries && err != nil; i++ {
		once(q.network)
	}
	if err == nil && r.Truncated && q.network == "udp" && !q.ignoreTC {
		once("tcp")
	}
	if err != nil {
		return &DigResult{Out: err.Error(), Err: err}
	}
	got := &DigResult{Out: r.String(), Status: dns.RcodeToString[r.Rcode], ID: strconv.Itoa(int(r.Id)), Answer: r.Answer, Authority: r.Ns}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"qr", r.Response}, {"aa", r.Authoritative}, {"tc", r.Truncated}, {"rd", r.RecursionDesired},
		{"ra", r.RecursionAvailable}, {"ad", r.AuthenticatedData}, {"cd", r.CheckingDisabled},
	} {
		if f.set {
			got.Flags = append(got.Flags, f.name)
		}
	}
	return got
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
