// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punttest"
)

func TestAppendError(t *testing.T) {
	tests := []struct {
		name, query string
		rcode       int
		want        string // empty: nothing can be said
		recursive   bool
	}{
		{"servfail", punttest.Query, dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", false},
		{"with EDNS",
			"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00",
			dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00", false},
		{"of the flags of EDNS, DO returns",
			"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x10\x00\x01\x02\xff\xff\x00\x00",
			dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00", false},
		{"with something else additional",
			"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x10\x10\x00\x00\x00\x00\x00\x00\x00",
			dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", false},
		{"RD and CD return, AD and RA do not",
			"\x12\x34\x01\xb0\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", dns.RcodeServerFailure,
			"\x12\x34\x81\x12\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", false},
		{"of another opcode no flag returns",
			"\x12\x34\x29\xb0\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", dns.RcodeNotImplemented,
			"\x12\x34\xa8\x04\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", true},
		{"no question", "\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00", false},
		{"two questions", "\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\x01b\x00\x00\x01\x00\x01", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00", false},
		{"question cut off", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00", false},
		{"compressed question", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00", false},
		{"recursive", punttest.Query, dns.RcodeFormatError,
			"\x12\x34\x81\x81\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", true},
		{"header cut off", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00", dns.RcodeFormatError, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := appendError(nil, []byte(tt.query), tt.rcode, tt.recursive)
			if string(got) != tt.want {
				t.Errorf("got  %x\nwant %x", got, tt.want)
			}
		})
	}
}

func TestAppendErrorAllocates(t *testing.T) {
	room := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { appendError(room, []byte(punttest.Query), dns.RcodeServerFailure, true) }); n != 0 {
		t.Errorf("%v allocations, want 0: it speaks for queries there is no room for", n)
	}
}

// Whatever a guest sends, the answer is one that it can read, and not longer than
// what it sent but for an OPT record: nobody is amplified.
func FuzzAppendError(f *testing.F) {
	f.Add([]byte(punttest.Query), uint8(2))
	f.Add(bytes.Repeat([]byte{1}, 300), uint8(1))
	f.Add([]byte(queryOPT+"\x04\x00\x0b\x00\x00"), uint8(1))
	f.Fuzz(func(t *testing.T, m []byte, rcode uint8) {
		answer := appendError(nil, m, int(rcode&0xf), rcode&0x10 != 0)
		if len(m) < headerLen {
			if answer != nil {
				t.Fatalf("answered %x to half a header", answer)
			}
			return
		}
		var r dns.Msg
		if err := r.Unpack(answer); err != nil {
			t.Fatalf("%x: %v", answer, err)
		}
		if !r.Response || r.Rcode != int(rcode&0xf) || r.Id != uint16(m[0])<<8|uint16(m[1]) {
			t.Fatalf("answer %v to %x", r, m)
		}
		if len(answer) > len(m) {
			t.Fatalf("%d bytes answered to %d", len(answer), len(m))
		}
		// Over TCP there may be an option more.
		if !asksKeepalive(m) {
			return
		}
		answer = appendKeepalive(answer, int(rcode))
		if err := r.Unpack(answer); err != nil {
			t.Fatalf("%x: %v", answer, err)
		}
		if o := r.IsEdns0(); o != nil && (len(o.Option) != 1 || !isKeepalive(o.Option[0])) {
			t.Fatalf("options %v", o.Option)
		}
	})
}

func TestAccept(t *testing.T) {
	tests := []struct {
		name, message string
		want          acceptance
	}{
		{"query", punttest.Query, acceptQuery},
		{"short", punttest.Query[:11], acceptShort},
		{"empty", "", acceptShort},
		{"response", "\x12\x34\x81" + punttest.Query[3:], acceptResponse},
		{"notify", "\x12\x34\x21" + punttest.Query[3:], acceptOpcode},
		{"update", "\x12\x34\x29" + punttest.Query[3:], acceptOpcode},
		{"status", "\x12\x34\x11" + punttest.Query[3:], acceptOpcode},
		{"no question", "\x12\x34\x01\x00\x00\x00" + punttest.Query[6:], acceptMalformed},
		{"two questions", "\x12\x34\x01\x00\x00\x02" + punttest.Query[6:], acceptMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := accept([]byte(tt.message)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestRefusedQuestion(t *testing.T) {
	tests := []struct {
		name       string
		qtype      uint16
		class      uint16
		transfers  bool
		rcode      int
		wantReason string
	}{
		{"A", dns.TypeA, dns.ClassINET, false, 0, ""},
		{"type 0", 0, dns.ClassINET, false, 0, ""},
		{"type 40", dns.TypeOPT - 1, dns.ClassINET, false, 0, ""},
		{"OPT", dns.TypeOPT, dns.ClassINET, false, dns.RcodeFormatError, "type"},
		{"type 42", dns.TypeOPT + 1, dns.ClassINET, false, 0, ""},
		{"type 127", 127, dns.ClassINET, false, 0, ""},
		{"NXNAME", 128, dns.ClassINET, false, dns.RcodeFormatError, "type"},
		{"type 248", 248, dns.ClassINET, false, dns.RcodeFormatError, "type"},
		{"TKEY", dns.TypeTKEY, dns.ClassINET, false, dns.RcodeFormatError, "type"},
		{"TSIG", dns.TypeTSIG, dns.ClassINET, false, dns.RcodeFormatError, "type"},
		{"IXFR", dns.TypeIXFR, dns.ClassINET, false, dns.RcodeRefused, "transfer"},
		{"AXFR", dns.TypeAXFR, dns.ClassINET, false, dns.RcodeRefused, "transfer"},
		{"AXFR of class CH", dns.TypeAXFR, dns.ClassCHAOS, false, dns.RcodeRefused, "transfer"},
		{"AXFR, a plugin does it", dns.TypeAXFR, dns.ClassINET, true, 0, ""},
		{"IXFR, a plugin does it", dns.TypeIXFR, dns.ClassINET, true, 0, ""},
		{"MAILB", dns.TypeMAILB, dns.ClassINET, false, dns.RcodeNotImplemented, "type"},
		{"MAILA", dns.TypeMAILA, dns.ClassINET, true, dns.RcodeNotImplemented, "type"},
		{"ANY", dns.TypeANY, dns.ClassINET, false, 0, ""},
		{"URI", dns.TypeURI, dns.ClassINET, false, 0, ""},
		{"type 65535", 65535, dns.ClassINET, false, 0, ""},
		{"class CH", dns.TypeTXT, dns.ClassCHAOS, false, 0, ""},
		{"class NONE", dns.TypeA, dns.ClassNONE, false, dns.RcodeFormatError, "class"},
		{"class ANY", dns.TypeA, dns.ClassANY, false, dns.RcodeFormatError, "class"},
		{"class ANY, AXFR, a plugin does it", dns.TypeAXFR, dns.ClassANY, true, dns.RcodeFormatError, "class"},
		{"class 4711", dns.TypeA, 4711, false, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rcode, reason := refusedQuestion(dns.Question{Name: "a.", Qtype: tt.qtype, Qclass: tt.class}, tt.transfers)
			if rcode != tt.rcode || reason != tt.wantReason {
				t.Errorf("got %s %q, want %s %q", dns.RcodeToString[rcode], reason, dns.RcodeToString[tt.rcode], tt.wantReason)
			}
		})
	}
}
