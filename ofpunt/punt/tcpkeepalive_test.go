// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// queryOPT is punttest.Query with an OPT record, whose options are to follow.
const queryOPT = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00"

func TestKeepaliveOfError(t *testing.T) {
	const (
		head = "\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00"
		told = head + "\x06\x00\x0b\x00\x02\x00\x64"
		bare = head + "\x00"
	)
	for _, tt := range []struct{ name, query, want string }{
		{"alone", queryOPT + "\x04\x00\x0b\x00\x00", told},
		{"behind another option", queryOPT + "\x09\x00\x0c\x00\x01\x00\x00\x0b\x00\x00", told},
		{"none", queryOPT + "\x00", bare},
		{"another one", queryOPT + "\x04\x00\x0a\x00\x00", bare},
		{"within another one", queryOPT + "\x08\x00\x0c\x00\x04\x00\x0b\x00\x00", bare},
		{"behind the record", queryOPT + "\x00\x00\x0b\x00\x00", bare},
		{"cut off", queryOPT + "\x04\x00\x0b\x00", bare},
		{"behind one that is cut off", queryOPT + "\x08\x00\x0c\x00\xff\x00\x0b\x00\x00", bare},
		{"of another record", punttest.Query[:10] + "\x00\x01" + punttest.Query[12:] + "\x00\x00\x10\x00\x01\x00\x00\x00\x00\x00\x04\x00\x0b\x00\x00",
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"},
		{"cut off in the header", queryOPT[:headerLen-1], ""},
		{"no OPT record", punttest.Query + "\x00\x0b\x00\x00", "\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			timeout, asks := -1, asksKeepalive([]byte(tt.query))
			if asks {
				timeout = 100
			}
			if asks != (tt.want == told) {
				t.Errorf("asks for it: %v", asks)
			}
			got := appendKeepalive(appendError(nil, []byte(tt.query), dns.RcodeServerFailure, false), timeout)
			if string(got) != tt.want {
				t.Errorf("got  %x\nwant %x", got, tt.want)
			}
		})
	}
}

func TestKeepaliveOfErrorWithoutEDNS(t *testing.T) {
	answer := appendError(nil, []byte(punttest.Query), dns.RcodeServerFailure, false)
	if got := appendKeepalive(bytes.Clone(answer), 100); !bytes.Equal(got, answer) {
		t.Errorf("got  %x\nwant %x", got, answer)
	}
}

func TestKeepaliveOfAnswer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []dns.EDNS0
		timeout int
		want    string // the options, from the length on
	}{
		{"none", nil, -1, "\x00\x00"},
		{"a timeout", nil, 300, "\x00\x06\x00\x0b\x00\x02\x01\x2c"},
		{"0", nil, 0, "\x00\x06\x00\x0b\x00\x02\x00\x00"},
		{"in the place of an upstream's", []dns.EDNS0{&dns.EDNS0_TCP_KEEPALIVE{Code: 11, Timeout: 7}, &dns.EDNS0_NSID{Code: 3, Nsid: "61"}}, 300,
			"\x00\x0b\x00\x03\x00\x01a\x00\x0b\x00\x02\x01\x2c"},
		{"not that of an upstream", []dns.EDNS0{&dns.EDNS0_TCP_KEEPALIVE{Code: 11, Timeout: 7}}, -1, "\x00\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg)
			m.SetEdns0(1232, false)
			// Others may have the options, too, and room behind them.
			shared := append(slices.Clone(tt.options), &dns.EDNS0_COOKIE{})
			before := slices.Clone(shared)
			m.IsEdns0().Option = shared[:len(tt.options)]
			setKeepalive(m, tt.timeout)
			if !slices.Equal(shared, before) {
				t.Errorf("others have %v, they had %v", shared, before)
			}
			b, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if got := string(b[headerLen+9:]); got != tt.want {
				t.Errorf("options %x, want %x", got, tt.want)
			}
		})
	}
}

func TestTakeKeepalive(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		want        bool
		left        int
	}{
		{"alone", queryOPT + "\x04\x00\x0b\x00\x00", true, 0},
		{"beside others, and twice", queryOPT + "\x0c\x00\x0b\x00\x00\x00\x0c\x00\x00\x00\x0b\x00\x00", true, 1},
		{"none", queryOPT + "\x04\x00\x0c\x00\x00", false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r dns.Msg
			if err := r.Unpack([]byte(tt.query)); err != nil {
				t.Fatal(err)
			}
			if got := takeKeepalive(&r); got != tt.want || len(r.IsEdns0().Option) != tt.left {
				t.Errorf("%v, left are %v; want %v and %d", got, r.IsEdns0().Option, tt.want, tt.left)
			}
		})
	}
}

// What a guest was told last is kept, also if the time that others get has become shorter.
func TestIdleUntil(t *testing.T) {
	now := time.Now()
	active := now.Add(-time.Second)
	for _, tt := range []struct {
		name     string
		promised int
		open     int
		want     time.Time
	}{
		{"nothing was promised", -1, 0, active.Add(10 * time.Second)},
		{"as long", 100, 0, active.Add(10*time.Second + keepaliveMargin)},
		{"longer", 300, 0, active.Add(30*time.Second + keepaliveMargin)},
		{"shorter", 50, 0, active.Add(10*time.Second + keepaliveMargin)},
		{"to end", 0, 0, active.Add(closeWait)},
		{"a query is worked on", -1, 1, now.Add(10 * time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &connection{open: make(chan struct{}, maxOpen), promised: tt.promised, active: active}
			for range tt.open {
				s.open <- struct{}{}
			}
			if got := s.idleUntil(10*time.Second, now); !got.Equal(tt.want) {
				t.Errorf("%s from now, want %s", got.Sub(now), tt.want.Sub(now))
			}
		})
	}
}

// A guest that asks is told the time that its connection may be idle, or to end it, and
// the connection keeps that.
func TestPromise(t *testing.T) {
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stack.Close)
	conn, _ := dialled(t, stack, 1000)
	for _, tt := range []struct {
		name                    string
		udp, quiet              bool // no connection, no option
		last, leaving, crowding bool
		idle                    time.Duration
		want                    int
	}{
		{name: "as long as the server says", idle: 20 * time.Second, want: 200},
		{name: "longer than the option can say", idle: 2 * time.Hour, want: 65535},
		{name: "over UDP", udp: true, idle: time.Second, want: -1},
		{name: "not asked", quiet: true, idle: time.Second, want: -1},
		{name: "the last query", last: true, idle: time.Second, want: 0},
		{name: "the process goes", leaving: true, idle: time.Second, want: 0},
		{name: "little room for others", crowding: true, idle: time.Second, want: 0}, // the last row: they stay
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.crowding {
				for i := range uint16(tcp.MaxOfOwner - 1) {
					dialled(t, stack, 2000+i)
				}
			}
			var leaving atomic.Bool
			leaving.Store(tt.leaving)
			in := newIntake(Bridge{Draining: &leaving}, nil)
			c := newConnection(in, conn)
			m := &message{connection: c, last: tt.last}
			x, by := &m.exchange, transport(m)
			if tt.udp {
				by = &datagram{}
			}
			x.init(NewServer(Config{IdleTimeout: tt.idle}), by, &sender{channel: &Channel{intake: in}})
			if got := x.promise(!tt.quiet); got != tt.want || c.promised != tt.want {
				t.Errorf("%d units, and %d are kept; want %d", got, c.promised, tt.want)
			}
		})
	}
}

// The option of an upstream is of its own connection (RFC 7828, section 3.5).
func TestKeepaliveOfUpstream(t *testing.T) {
	c, peer := newChannel(t)
	x := asked(t, c, 7)
	m := new(dns.Msg).SetReply(&x.request)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE, Timeout: 7}}
	if err := x.writer.WriteMsg(m); err != nil {
		t.Fatal(err)
	}
	if o := nextAnswer(t, peer).IsEdns0(); o == nil || len(o.Option) != 0 {
		t.Errorf("the guest is told %v", o)
	}
}

// An answer behind the deadline takes back nothing that the guest was told.
func TestLateAnswerPromisesNothing(t *testing.T) {
	const told = 100
	var leaving atomic.Bool
	leaving.Store(true) // any other answer says 0
	in := newIntake(Bridge{Draining: &leaving}, nil)
	m := &message{connection: &connection{intake: in, promised: told}}
	x := &m.exchange
	x.init(NewServer(Config{IdleTimeout: time.Second}), m, &sender{channel: &Channel{intake: in}})
	x.done.Store(true)
	if units := x.promise(true); units != -1 || m.connection.promised != told {
		t.Errorf("%d units, and %d are kept; want -1 and %d", units, m.connection.promised, told)
	}
}
