// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/punttest"
)

const (
	questionA = "\x01a\x00\x00\x01\x00\x01"                    // a. A IN
	recordOPT = "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00" // of EDNS, no options
	recordA   = "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x0a\x00\x00\x01"
)

// counting is a header with these counts before what follows.
func counting(questions, answers, authorities, additional byte, rest ...string) string {
	return string([]byte{0x12, 0x34, 1, 0, 0, questions, 0, answers, 0, authorities, 0, additional}) + strings.Join(rest, "")
}

func TestWellFormed(t *testing.T) {
	label := func(n int) string { return string(rune(n)) + strings.Repeat("x", n) }
	long := strings.Repeat(label(63), 3)
	tests := []struct {
		name, message string
		want          bool
	}{
		{"a question", counting(1, 0, 0, 0, questionA), true},
		{"bytes behind", counting(1, 0, 0, 0, questionA, "\x01\x02\x03"), true},
		{"of the root", counting(1, 0, 0, 0, "\x00\x00\x01\x00\x01"), true},
		{"no question", counting(0, 0, 0, 0), false},
		{"no question counted", counting(0, 0, 0, 0, questionA), false},
		{"two questions", counting(2, 0, 0, 0, questionA, questionA), false},
		{"257 questions counted", punttest.Query[:4] + "\x01" + punttest.Query[5:], false},
		{"header alone", counting(1, 0, 0, 0), false},
		{"cut in a label", counting(1, 0, 0, 0, questionA[:1]), false},
		{"cut before the root", counting(1, 0, 0, 0, questionA[:2]), false},
		{"cut before the type", counting(1, 0, 0, 0, questionA[:3]), false},
		{"cut in the class", counting(1, 0, 0, 0, questionA[:6]), false},
		{"class 0", counting(1, 0, 0, 0, "\x01a\x00\x00\x01\x00\x00"), false},

		{"a record in each section", counting(1, 1, 1, 1, questionA, recordA, recordA, recordA), true},
		{"fewer than counted", counting(1, 0, 0, 1, questionA), false},
		{"256 more than are there", punttest.Query[:6] + "\x01" + punttest.Query[7:], false},
		{"fewer than counted in front of others", counting(1, 1, 0, 1, questionA, recordA), false},
		{"cut in the owner", counting(1, 0, 0, 1, questionA, recordA[:1]), false},
		{"cut in the record", counting(1, 0, 0, 1, questionA, recordA[:11]), false},
		{"cut in the data", counting(1, 0, 0, 1, questionA, recordA[:15]), false},

		{"EDNS", counting(1, 0, 0, 1, questionA, recordOPT), true},
		{"EDNS behind another record", counting(1, 0, 0, 2, questionA, recordA, recordOPT), true},
		{"EDNS before another record", counting(1, 0, 0, 2, questionA, recordOPT, recordA), true},
		{"EDNS twice", counting(1, 0, 0, 2, questionA, recordOPT, recordOPT), false},
		{"EDNS in the answer", counting(1, 1, 0, 0, questionA, recordOPT), false},
		{"EDNS in the authority", counting(1, 0, 1, 0, questionA, recordOPT), false},
		{"EDNS with an owner", counting(1, 0, 0, 1, questionA, "\x01a", recordOPT), false},
		{"EDNS with an owner by a pointer", counting(1, 0, 0, 1, questionA, "\xc0\x0c", recordOPT[1:]), false},
		{"EDNS of the root by a pointer", counting(1, 0, 0, 1, questionA, "\xc0\x0e", recordOPT[1:]), false},

		{"pointer back", counting(1, 0, 0, 1, questionA, recordA), true},
		{"labels, then a pointer back", counting(1, 0, 0, 1, questionA, "\x01b", recordA), true},
		{"pointer to a zero of the header", counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"), true},
		{"pointer to what runs on behind it, class 0", "\x12000\x00\x01\x00\x00\x00\x00\x00\x00\x010\xc0\x0000\x00\x000000", false},
		{"pointer to itself", counting(1, 0, 0, 0, "\xc0\x0c\x00\x01\x00\x01"), false},
		{"pointer into its own name", counting(1, 0, 0, 0, "\x01a\xc0\x0c\x00\x01\x00\x01"), false},
		{"pointer forward", counting(1, 0, 0, 0, "\xc0\x12\x00\x01\x00\x01", "\x01a\x00"), false},
		{"pointer of a record forward", counting(1, 0, 0, 1, questionA, "\xc0\x23", recordA[2:], "\x00"), false},
		{"pointer back to one that leads forward", counting(1, 0, 0, 0, "\x01a\xc0\x02\x00\x01\x00\x01")[:2] + "\xc0\x0e" + counting(1, 0, 0, 0, "\x01a\xc0\x02\x00\x01\x00\x01")[4:], false},
		{"pointer back to one that leads between", punttest.Query[:2] + "\xc0\x0c" + counting(1, 0, 0, 1, questionA, "\xc0\x02", recordA[2:])[4:], false},
		{"pointer to a zero of its own name", counting(1, 0, 0, 0, "\x02x\x00\xc0\x0e\x00\x01\x00\x01"), false},
		{"pointer forward by its upper bits", counting(1, 0, 0, 1, questionA, "\xc1", recordA[1:]), false},
		{"pointer to a pointer", counting(1, 0, 0, 2, questionA, "\x01b", recordA, "\xc0\x13", recordA[2:]), true},
		{"cut in the data behind a pointer to a pointer", counting(1, 0, 0, 2, questionA, "\x01b", recordA, "\xc0\x13", recordA[2:15]), false},
		{"pointer out of the message", counting(1, 0, 0, 0, "\xc0\xc8\x00\x01\x00\x01"), false},
		{"pointer cut off", counting(1, 0, 0, 0, "\xc0"), false},
		{"label of type 01", counting(1, 0, 0, 0, "\x41", strings.Repeat("x", 0x41), "\x00\x00\x01\x00\x01"), false},
		{"label of type 10", counting(1, 0, 0, 0, "\x81", strings.Repeat("x", 0x81), "\x00\x00\x01\x00\x01"), false},
		{"label of type 10 as a pointer", counting(1, 0, 0, 1, questionA, "\x80", recordA[1:]), false},
		{"a name of 255 bytes", counting(1, 0, 0, 0, long, label(61), "\x00\x00\x01\x00\x01"), true},
		{"a name of 256 bytes", counting(1, 0, 0, 0, long, label(62), "\x00\x00\x01\x00\x01"), false},
		{"a name of 255 bytes by a pointer", counting(1, 0, 0, 1, long, "\x00\x00\x01\x00\x01", label(61), recordA), true},
		{"a name of 256 bytes by a pointer", counting(1, 0, 0, 1, long, "\x00\x00\x01\x00\x01", label(62), recordA), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wellFormed([]byte(tt.message)); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWellFormedAllocates(t *testing.T) {
	m := []byte(counting(1, 0, 0, 2, questionA, recordA, recordOPT))
	if n := testing.AllocsPerRun(100, func() { wellFormed(m) }); n != 0 {
		t.Errorf("%v allocations, want 0: it looks at each query", n)
	}
}

// What is well-formed has what the rest of the package counts on, as miekg/dns reads
// it; what miekg/dns packs by itself is well-formed.
func FuzzWellFormed(f *testing.F) {
	for _, m := range []string{
		punttest.Query, counting(1, 1, 1, 1, questionA, recordA, recordA, recordOPT),
		counting(1, 0, 0, 1, questionA, "\xc0\x0c", recordOPT[1:]),
		counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"),
	} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerLen {
			return
		}
		var m dns.Msg
		ok, err := wellFormed(b), m.Unpack(b)
		if ok && err == nil {
			opts := 0
			for _, rr := range m.Extra {
				if rr.Header().Rrtype == dns.TypeOPT {
					opts++
				}
			}
			if len(m.Question) != 1 || m.Question[0].Qclass == 0 || opts > 1 || len(m.Answer)+len(m.Ns)+len(m.Extra) != int(b[7])+int(b[9])+int(b[11])+(int(b[6])+int(b[8])+int(b[10]))<<8 {
				t.Errorf("%x is taken as %v", b, &m)
			}
			if o := m.IsEdns0(); o != nil && o.Hdr.Name != "." {
				t.Errorf("%x: an OPT record of %q", b, o.Hdr.Name)
			}
		}
		if ok {
			return
		}
		if err == nil && len(m.Question) == 1 && len(m.Answer)+len(m.Ns)+len(m.Extra) == 0 && m.Question[0].Qclass != 0 {
			again, err := m.Pack()
			if err == nil && !wellFormed(again) {
				t.Errorf("%x is refused", again)
			}
		}
	})
}
