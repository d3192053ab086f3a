// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// keepingTransport keeps what is sent.
type keepingTransport struct {
	recordingTransport
	messages [][]byte
}

func (k *keepingTransport) send(b *buffer, _ time.Time) error {
	k.messages = append(k.messages, bytes.Clone(b.answer))
	return nil
}

// exchangeOf is an exchange of a message that a chain has got. Zone transfers are for the chain.
func exchangeOf(t *testing.T, tr transport, payload []byte) *Exchange {
	t.Helper()
	config := testConfig()
	config.Transfers = true
	in := newIntake(Bridge{Name: bridgeName, Tally: metric.NewTally(bridgeName), Ports: new(ports.Owners)}, nil)
	from := &sender{channel: &Channel{intake: in}, ends: frame.Ends{Src: netip.MustParseAddrPort("10.0.0.11:5000"), Dst: netip.MustParseAddrPort("169.254.169.254:53")}}
	x := new(Exchange)
	x.init(NewServer(config), tr, from)
	x.payload = payload
	if !x.validate() {
		t.Fatal("the query is refused")
	}
	x.writer.init(x)
	return x
}

// Secrets, in base64.
const (
	redKey  = "cmVkIHJlZCByZWQ="
	blueKey = "Ymx1ZSBibHVlIGI="
)

// signedQuery is a query that was signed with a key at a time, and the MAC.
func signedQuery(t *testing.T, qname string, qtype uint16, name, secret string, at time.Time) (payload []byte, mac string) {
	t.Helper()
	m := new(dns.Msg).SetQuestion(qname, qtype)
	m.SetEdns0(4096, false)
	m.SetTsig(name, dns.HmacSHA256, 300, at.Unix())
	payload, mac, err := dns.TsigGenerate(m, secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	return payload, mac
}

// A signature is right if it was made with a key of the block, of late; the query itself is left
// as it is.
func TestTSIGStatus(t *testing.T) {
	for _, tt := range []struct {
		name, key, secret string
		age               time.Duration
		keys              map[string]string
		want              error
	}{
		{"a key of the block", "red.", redKey, 0, map[string]string{"blue.": blueKey, "red.": redKey}, nil},
		{"its name in upper case", "RED.", redKey, 0, map[string]string{"red.": redKey}, nil},
		{"a key of another block", "red.", redKey, 0, map[string]string{"blue.": blueKey}, dns.ErrSecret},
		{"the name of a key with another secret", "blue.", redKey, 0, map[string]string{"blue.": blueKey}, dns.ErrSig},
		{"long ago", "red.", redKey, time.Hour, map[string]string{"red.": redKey}, dns.ErrTime},
		{"a block without keys", "red.", redKey, 0, nil, dns.ErrSecret},
	} {
		payload, _ := signedQuery(t, "a.", dns.TypeA, tt.key, tt.secret, time.Now().Add(-tt.age))
		x := exchangeOf(t, new(keepingTransport), bytes.Clone(payload))
		if err := x.writer.TsigStatus(); err == nil {
			t.Errorf("%s: right without keys", tt.name)
		}
		x.SetKeys(tt.keys)
		if err := x.writer.TsigStatus(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if !bytes.Equal(x.payload, payload) {
			t.Errorf("%s: the query has changed", tt.name)
		}
	}
	plain, err := new(dns.Msg).SetQuestion("a.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	x := exchangeOf(t, new(keepingTransport), plain)
	x.SetKeys(map[string]string{"red.": redKey})
	if err := x.writer.TsigStatus(); err == nil {
		t.Error("a query without a signature has a right one")
	}
}

// An answer is signed with the key of the query, and no larger than the guest takes: without its
// records if need be.
func TestTSIGAnswer(t *testing.T) {
	for _, tt := range []struct {
		name      string
		records   int
		truncated bool
	}{{"short", 1, false}, {"long", 200, true}} {
		payload, mac := signedQuery(t, "a.", dns.TypeTXT, "red.", redKey, time.Now())
		tr := new(keepingTransport)
		x := exchangeOf(t, tr, payload)
		x.SetKeys(map[string]string{"red.": redKey})
		m := new(dns.Msg).SetReply(&x.request)
		for i := range tt.records {
			m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{fmt.Sprint("record ", i)}})
		}
		m.SetEdns0(4096, false)
		m.SetTsig("red.", dns.HmacSHA256, 0, 0)
		if err := x.writer.WriteMsg(m); err != nil || len(tr.messages) != 1 {
			t.Fatalf("%s: %v, %d messages", tt.name, err, len(tr.messages))
		}
		got := new(dns.Msg)
		if err := got.Unpack(tr.messages[0]); err != nil {
			t.Fatal(err)
		}
		if len(tr.messages[0]) > maxPayload || got.Truncated != tt.truncated || (len(got.Answer) == 0) != tt.truncated || got.IsEdns0() == nil {
			t.Errorf("%s: %d bytes, %v", tt.name, len(tr.messages[0]), got)
		}
		if err := dns.TsigVerify(tr.messages[0], redKey, mac, false); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// An error of the signature is told without one (RFC 8945, section 5.3.2).
func TestTSIGError(t *testing.T) {
	payload, _ := signedQuery(t, "a.", dns.TypeA, "red.", redKey, time.Now())
	tr := new(keepingTransport)
	x := exchangeOf(t, tr, payload)
	x.SetKeys(nil)
	m := new(dns.Msg).SetRcode(&x.request, dns.RcodeNotAuth)
	m.SetTsig("red.", dns.HmacSHA256, 300, time.Now().Unix())
	m.IsTsig().Error = dns.RcodeBadKey
	if err := x.writer.WriteMsg(m); err != nil {
		t.Fatal(err)
	}
	got := new(dns.Msg)
	if err := got.Unpack(tr.messages[0]); err != nil {
		t.Fatal(err)
	}
	if s := got.IsTsig(); s == nil || s.Error != dns.RcodeBadKey || s.MACSize != 0 {
		t.Errorf("%v, want BADKEY without a MAC", got)
	}
}

// A zone transfer has as many messages as it takes, each signed behind the one before. Over UDP,
// and for other questions, there is one.
func TestTransferMessages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		qtype uint16
		tcp   bool
		want  int
	}{{"AXFR", dns.TypeAXFR, true, 3}, {"IXFR", dns.TypeIXFR, true, 3}, {"AXFR over UDP", dns.TypeAXFR, false, 1}, {"A", dns.TypeA, true, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			payload, mac := signedQuery(t, "example.", tt.qtype, "red.", redKey, time.Now())
			tr := &keepingTransport{recordingTransport: recordingTransport{tcp: tt.tcp}}
			x := exchangeOf(t, tr, payload)
			x.SetKeys(map[string]string{"red.": redKey})
			envelopes := make(chan *dns.Envelope, 3)
			for i := range cap(envelopes) {
				name := strings.Repeat("x", i+1) + ".example."
				envelopes <- &dns.Envelope{RR: []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeNS, Class: dns.ClassINET}, Ns: name}}}
			}
			close(envelopes)
			err := new(dns.Transfer).Out(&x.writer, &x.request, envelopes)
			if (err == nil) != (tt.want == 3) || len(tr.messages) != tt.want {
				t.Fatalf("%v, %d messages, want %d", err, len(tr.messages), tt.want)
			}
			for i, b := range tr.messages {
				if err := dns.TsigVerify(bytes.Clone(b), redKey, mac, i > 0); err != nil {
					t.Errorf("message %d: %v", i, err)
				}
				m := new(dns.Msg)
				if err := m.Unpack(b); err != nil {
					t.Fatal(err)
				}
				mac = m.IsTsig().MAC
				if len(m.Answer) != 1 || len(m.Answer[0].Header().Name) != len("example.")+i+2 {
					t.Errorf("message %d: %v", i, m)
				}
			}
			if tt.want == 3 && x.outcome.Load().Result != metric.Answered {
				t.Errorf("it is %v", x.outcome.Load())
			}
		})
	}
}

// Whatever a guest puts into the record, it is validated without a panic, and the query stays as it
// is.
func FuzzTSIG(f *testing.F) {
	m := new(dns.Msg).SetQuestion("a.", dns.TypeA)
	m.SetTsig("red.", dns.HmacSHA256, 300, 1_700_000_000)
	signed, _, err := dns.TsigGenerate(m, redKey, "", false)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add(signed[:len(signed)-20])
	f.Fuzz(func(t *testing.T, payload []byte) {
		x := new(Exchange)
		x.payload = payload
		if len(payload) < headerLen || !wellFormed(payload) || x.request.Unpack(payload) != nil {
			return
		}
		before := bytes.Clone(payload)
		x.SetKeys(map[string]string{"red.": redKey})
		if !bytes.Equal(payload, before) {
			t.Error("the query has changed")
		}
		// It is long ago that the seed was signed, so no change to it makes it right.
		if s := x.signer.Load(); s != nil && s.status == nil {
			t.Error("it is taken for right")
		}
	})
}
