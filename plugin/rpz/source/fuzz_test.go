// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// received returns what a Source takes from a primary that answers a transfer with these messages, each
// behind its length in two bytes, and then closes the connection. The messages get the ID of the query.
func received(t *testing.T, c Config, messages []byte) (*rules.Rules, error) {
	t.Helper()
	s := newSource(c, &testkit.Lines{})
	zone, err := s.newTransferred()
	if err != nil {
		t.Fatal(err)
	}
	return s.receive(answered(t, messages), new(dns.Msg).SetAxfr(c.Zone), zone)
}

// answered returns a connection to a primary that answers one query with these messages.
func answered(t *testing.T, messages []byte) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		var length [2]byte
		if _, err := io.ReadFull(theirs, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(theirs, query); err != nil {
			return
		}
		all := slices.Clone(messages)
		for rest := all; len(rest) >= 4; {
			copy(rest[2:4], query)
			rest = rest[min(2+int(binary.BigEndian.Uint16(rest)), len(rest)):]
		}
		_, _ = theirs.Write(all) // the Source may have closed it
	}()
	t.Cleanup(func() {
		ours.Close()
		<-done
	})
	return ours
}

// message returns a response with these records, behind its length.
func message(t testing.TB, records ...string) []byte {
	t.Helper()
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

const (
	soaText   = "rpz. 60 SOA ns.rpz. h.rpz. 1 1 1 1 1"
	otherText = "x.rpz. 60 SOA ns.rpz. h.rpz. 1 1 1 1 1"
)

// A transfer begins and ends with the SOA record of the zone, or changes nothing.
func TestPartOfZone(t *testing.T) {
	t.Parallel()
	rule := func(name string) string { return name + ".rpz. CNAME ." }
	for _, tt := range []struct {
		name     string
		messages [][]byte
		want     string
	}{
		{"a zone", [][]byte{message(t, soaText, rule("a"), soaText)}, ""},
		{"a zone in several messages", [][]byte{message(t, soaText), message(t, rule("a")), message(t), message(t, rule("b")), message(t, soaText)}, ""},
		{"a zone without rules", [][]byte{message(t, soaText, soaText)}, ""},
		{"cut off", [][]byte{message(t, soaText, rule("a")), message(t, rule("b"))}, "EOF"},
		{"cut off in a message", [][]byte{message(t, soaText, rule("a")), message(t, rule("b"), soaText)[:20]}, dns.ErrBuf.Error()},
		{"another SOA record in the place of the last one", [][]byte{message(t, soaText, rule("a")), message(t, rule("b"), otherText), message(t, rule("c"), soaText)}, errCutOff.Error()},
		{"another SOA record in the place of the first one", [][]byte{message(t, otherText, rule("a")), message(t, soaText, rule("b"), soaText)}, errBegin.Error()},
		{"a record behind the last one", [][]byte{message(t, soaText, rule("a")), message(t, soaText, rule("b")), message(t, soaText)}, errBehind.Error()},
		{"another serial number at its end", [][]byte{message(t, soaText, rule("a"), strings.Replace(soaText, "1", "2", 1))}, "two SOA records"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := received(t, Config{Zone: "rpz."}, slices.Concat(tt.messages...))
			if (err == nil) != (tt.want == "") || (r != nil) != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v, want %q", r, err, tt.want)
			}
		})
	}
}

// FuzzTransfer is a primary that answers a transfer with anything. Nothing panics, a zone is within its
// limits and has all records from its first SOA record to its second one, and nothing is taken without
// a signature where there is a key.
func FuzzTransfer(f *testing.F) {
	large := "a." + strings.Repeat("b.", 100) + "rpz. CNAME ." // more than Bytes
	many := slices.Repeat([]string{"a.rpz. CNAME ."}, 60)      // more than Records
	for _, messages := range [][]byte{
		message(f, soaText, "a.rpz. CNAME .", "*.a.rpz. A 192.0.2.1", "32.1.2.0.192.rpz-ip.rpz. CNAME *.", soaText),
		slices.Concat(message(f, soaText), message(f, "a.rpz. CNAME ."), message(f), message(f, "b.rpz. TXT x", soaText)),
		slices.Concat(message(f, soaText, "a.rpz. CNAME ."), message(f, otherText), message(f, "b.rpz. CNAME .", soaText)),
		slices.Concat(message(f, soaText, "a.rpz. CNAME ."), message(f, soaText, "b.rpz. CNAME ."), message(f, soaText)),
		message(f, soaText, large, soaText),
		slices.Concat(message(f, soaText), message(f, many...), message(f, soaText)),
		message(f, soaText, "a.rpz. CNAME .", soaText)[:40],
		message(f),
	} {
		f.Add(messages, false)
		f.Add(messages, true)
	}
	limits := rules.Limits{Records: 40, Bytes: 2 << 10}
	f.Fuzz(func(t *testing.T, messages []byte, signed bool) {
		c := Config{Zone: "rpz.", Limits: limits}
		if signed {
			c.Key = Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}
		}
		r, err := received(t, c, messages)
		if (r == nil) != (err != nil) {
			t.Fatalf("%v and %v", r, err)
		}
		if err != nil {
			return
		}
		if signed {
			t.Fatal("it is taken without a signature")
		}
		if r.Size() > int(limits.Bytes) {
			t.Errorf("the rules take %d bytes", r.Size())
		}
		zone := wholeZone(messages)
		if len(zone) < 2 || len(zone) > limits.Records {
			t.Fatalf("a zone of %d records is taken", len(zone))
		}
		b, err := rules.NewBuilder("rpz.", rules.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rr := range zone {
			if err := b.Add(rr); err != nil {
				t.Fatal(err)
			}
		}
		want, err := b.Rules()
		if err != nil {
			t.Fatal(err)
		}
		got := r.Stats
		if got.Names != want.Stats.Names || got.Addresses != want.Stats.Addresses || got.Bad != want.Stats.Bad || !maps.Equal(got.Skipped, want.Stats.Skipped) || r.SOA.Serial != want.SOA.Serial {
			t.Errorf("the rules are %+v, want %+v", got, want.Stats)
		}
	})
}

// wholeZone returns the records of messages from the first one, if that is the SOA record of rpz., to the
// second such record; nil if there are not two, or others behind it.
func wholeZone(messages []byte) (zone []dns.RR) {
	soas := 0
	for len(messages) >= 2 && soas < 2 {
		n := 2 + int(binary.BigEndian.Uint16(messages))
		if n > len(messages) {
			return nil
		}
		var m dns.Msg
		if m.Unpack(messages[2:n]) != nil {
			return nil
		}
		for _, rr := range m.Answer {
			_, isSOA := rr.(*dns.SOA)
			if isSOA = isSOA && dns.CanonicalName(rr.Header().Name) == "rpz."; isSOA {
				soas++
			}
			if len(zone) == 0 && !isSOA || soas == 2 && !isSOA || soas > 2 {
				return nil
			}
			zone = append(zone, rr)
		}
		messages = messages[n:]
	}
	if soas < 2 {
		return nil
	}
	return zone
}
