// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"testing"

	"github.com/miekg/dns"
)

// query1 is "a. A IN" with RD, the id 0x1234.
const query1 = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"

func TestAppendError(t *testing.T) {
	tests := []struct {
		name, query string
		rcode       int
		want        string // empty: nothing can be said
	}{
		{"servfail", query1, dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"},
		{"with EDNS",
			"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00",
			dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"},
		{"with something else additional",
			"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01" + "\x00\x00\x10\x10\x00\x00\x00\x00\x00\x00\x00",
			dns.RcodeServerFailure,
			"\x12\x34\x81\x02\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"},
		{"opcode and CD return, AD and RA do not",
			"\x12\x34\x29\xb0\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01", dns.RcodeNotImplemented,
			"\x12\x34\xa9\x14\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"},
		{"no question", "\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"two questions", "\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\x01b\x00\x00\x01\x00\x01", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"question cut off", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"compressed question", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01", dns.RcodeFormatError,
			"\x12\x34\x81\x01\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"header cut off", "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00", dns.RcodeFormatError, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := appendError(nil, []byte(tt.query), tt.rcode)
			if string(got) != tt.want {
				t.Errorf("got  %x\nwant %x", got, tt.want)
			}
		})
	}
}

func TestAppendErrorAllocates(t *testing.T) {
	room := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { appendError(room, []byte(query1), dns.RcodeServerFailure) }); n != 0 {
		t.Errorf("%v allocations, want 0: it speaks for queries there is no room for", n)
	}
}

// Whatever a guest sends, the answer is one that it can read, and not longer than
// what it sent but for an OPT record: nobody is amplified.
func FuzzAppendError(f *testing.F) {
	f.Add([]byte(query1), uint8(2))
	f.Add(bytes.Repeat([]byte{1}, 300), uint8(1))
	f.Fuzz(func(t *testing.T, m []byte, rcode uint8) {
		answer := appendError(nil, m, int(rcode&0xf))
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
	})
}

func TestAccept(t *testing.T) {
	tests := []struct {
		name, message string
		want          acceptance
	}{
		{"query", query1, acceptQuery},
		{"short", query1[:11], acceptShort},
		{"empty", "", acceptShort},
		{"response", "\x12\x34\x81" + query1[3:], acceptResponse},
		{"notify", "\x12\x34\x21" + query1[3:], acceptOpcode},
		{"update", "\x12\x34\x29" + query1[3:], acceptOpcode},
		{"status", "\x12\x34\x11" + query1[3:], acceptOpcode},
		{"no question", "\x12\x34\x01\x00\x00\x00" + query1[6:], acceptMalformed},
		{"two questions", "\x12\x34\x01\x00\x00\x02" + query1[6:], acceptMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := accept([]byte(tt.message)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
