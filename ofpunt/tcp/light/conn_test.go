// SPDX-License-Identifier: Apache-2.0

package light_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/ofpunt/tcp/light"
)

// The client's first sequence number and ours. Both wrap within a conversation.
const (
	clientFirst = 0xfffffff8
	serverFirst = 0xfffffffa
)

var flagLetters = []struct {
	letter byte
	flag   header.TCPFlags
}{
	{'S', header.TCPFlagSyn},
	{'F', header.TCPFlagFin},
	{'R', header.TCPFlagRst},
	{'P', header.TCPFlagPsh},
	{'U', header.TCPFlagUrg},
	{'A', header.TCPFlagAck},
}

func parseFlags(word string) (flags header.TCPFlags) {
	for _, f := range flagLetters {
		if strings.IndexByte(word, f.letter) >= 0 {
			flags |= f.flag
		}
	}
	return flags
}

func flagWord(flags header.TCPFlags) (word string) {
	for _, f := range flagLetters {
		if flags&f.flag != 0 {
			word += string(f.letter)
		}
	}
	return word
}

// script is a conversation. Its lines begin with what they are:
//
//	> FLAGS SEQ ACK [WINDOW:]TEXT  a segment of the client
//	! take | untake | respond TEXT | done | abort
//	+ DURATION                     time passes, and Tick is called
//	< FLAGS SEQ ACK TEXT           a segment that is sent
//	= WHAT                         what else is to be done
//
// Sequence numbers count from the first one of each side, so the first byte of text has 1. What
// follows one of the first three has to be all that comes of it.
type script struct {
	t    *testing.T
	conn *light.Conn
	now  time.Time
	last header.TCP // of the client
	// raw are the bytes of the last segment that was sent.
	raw []byte
}

// segment is one of the client.
func segment(flags header.TCPFlags, seq, ack uint32, window uint16, options []byte, text string) header.TCP {
	b := header.TCP(make([]byte, header.TCPMinimumSize+len(options)))
	copy(b[header.TCPMinimumSize:], options)
	b.Encode(&header.TCPFields{
		SrcPort: 40000, DstPort: 53, SeqNum: clientFirst + seq, AckNum: serverFirst + ack,
		DataOffset: uint8(len(b)), Flags: flags, WindowSize: window,
	})
	return append(b, text...)
}

// do does what a line says, and returns what comes of it as lines.
func (s *script) do(line string, options []byte) (out []string) {
	kind, rest, _ := strings.Cut(line, " ")
	var step light.Step
	switch kind {
	case ">":
		var word, text string
		var seq uint32
		var ack int32
		_, err := fmt.Sscan(rest, &word, &seq, &ack)
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		if words := strings.SplitN(rest, " ", 4); len(words) == 4 {
			text = words[3]
		}
		window := uint16(65535)
		if before, after, found := strings.Cut(text, ":"); found {
			if _, err := fmt.Sscan(before, &window); err != nil {
				s.t.Fatalf("%q: %v", line, err)
			}
			text = after
		}
		flags := parseFlags(word)
		if s.conn == nil {
			s.last = segment(flags, seq, uint32(ack), window, options, text)
			conn, opened := light.Open(s.last, serverFirst, s.now)
			s.conn, step = &conn, opened
			break
		}
		s.last = segment(flags, seq, uint32(ack), window, nil, text)
		step = s.conn.Receive(s.last, s.now)
	case "!":
		what, text, _ := strings.Cut(rest, " ")
		switch what {
		case "take":
			s.conn.Take(s.last, s.now)
		case "untake":
			s.conn.Untake(s.last)
		case "respond":
			step = s.conn.Respond([]byte(text), s.now)
		case "done":
			step = s.conn.Done(s.now)
		case "abort":
			step.Send = s.conn.Abort()
		}
	case "+":
		d, err := time.ParseDuration(rest)
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		s.now = s.now.Add(d)
		step = s.conn.Tick(s.now)
	default:
		s.t.Fatalf("line %q", line)
	}
	if step.Send.Flags != 0 {
		s.raw = step.Send.Append(nil)
		t := header.TCP(s.raw)
		acked := ""
		if t.Flags()&header.TCPFlagAck != 0 {
			acked = fmt.Sprint(t.AckNumber() - clientFirst)
		} else {
			acked = "-"
		}
		sent := fmt.Sprintf("< %s %d %s", flagWord(t.Flags()), t.SequenceNumber()-serverFirst, acked)
		if len(t.Payload()) > 0 {
			sent += " " + string(t.Payload())
		}
		out = append(out, sent)
	}
	if step.Do != light.Nothing {
		out = append(out, "= "+map[light.Do]string{
			light.Request: "request", light.HandOver: "hand over", light.Close: "close", light.End: "end",
		}[step.Do])
	}
	return out
}

// run runs a conversation.
func run(t *testing.T, options []byte, lines ...string) *script {
	t.Helper()
	s := &script{t: t, now: time.Unix(1, 0)}
	for len(lines) > 0 {
		n := 1 + len(lines[1:])
		if i := slices.IndexFunc(lines[1:], func(l string) bool { return l[0] != '<' && l[0] != '=' }); i >= 0 {
			n = 1 + i
		}
		if got, want := s.do(lines[0], options), lines[1:n]; !slices.Equal(got, want) {
			t.Fatalf("%s\ngot  %q\nwant %q", lines[0], got, want)
		}
		lines = lines[n:]
	}
	return s
}

// Parts of conversations.
var (
	opened   = []string{"> S 0 0", "< SA 0 1", "> A 1 1"}
	asked    = append(slices.Clone(opened), "> PA 1 1 query", "= request", "! take")
	answered = append(slices.Clone(asked), "! respond answer", "< PA 1 6 answer", "! done")
)

func TestConversations(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before []string
		lines  []string
	}{
		// What most connections are: three segments.
		{"an answer, which the FIN acknowledges", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "> A 7 8", "= end"}},
		{"an answer that is acknowledged by itself", answered, []string{"> A 6 7", "> FA 6 7", "< FA 7 7", "= close", "> A 7 8", "= end"}},
		{"the client resets instead of the last ACK", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "> R 7 0", "= end"}},
		{"the client resets", answered, []string{"> RA 6 7", "= end"}},
		{"no request", opened, []string{"> FA 1 1", "< FA 1 2", "= close", "> A 2 2", "= end"}},
		{"the ACK of the handshake is lost", nil, []string{"> S 0 0", "< SA 0 1", "> PA 1 1 query", "= request", "! take", "! respond answer", "< PA 1 6 answer"}},

		// The handshake.
		{"the SYN comes again", nil, []string{"> S 0 0", "< SA 0 1", "> S 0 0", "< SA 0 1", "> A 1 1"}},
		{"the SYN comes again behind the handshake", opened, []string{"> S 0 0", "< A 1 1"}},
		{"another SYN", nil, []string{"> S 0 0", "< SA 0 1", "> S 100 0", "< A 1 1", "> R 1 0", "= end"}},
		{"another SYN behind the handshake", opened, []string{"> S 100 0", "< A 1 1"}},
		{"another SYN from far away", opened, []string{"> S 1000000 0", "< A 1 1"}},
		{"a SYN-ACK", opened, []string{"> SA 1 1", "< A 1 1"}},
		{"it acknowledges what was never sent", nil, []string{"> S 0 0", "< SA 0 1", "> A 1 5", "< R 5 -", "> A 1 1"}},
		{"it acknowledges nothing", nil, []string{"> S 0 0", "< SA 0 1", "> A 1 0", "< R 0 -"}},
		{"no ACK at all", nil, []string{"> S 0 0", "< SA 0 1", "> P 1 0 query"}},
		{"our SYN is lost, and the client silent", nil, []string{
			"> S 0 0", "< SA 0 1", "+ 999ms", "+ 1ms", "< SA 0 1", "+ 900ms", "+ 100ms", "< SA 0 1", "+ 2s", "< SA 0 1",
		}},

		// Resets (RFC 5961, section 3).
		{"a reset in the window", opened, []string{"> R 2 0", "< A 1 1"}},
		{"a reset at the end of the window", opened, []string{"> R 8192 0", "< A 1 1"}},
		{"a reset behind the window", opened, []string{"> R 8193 0"}},
		{"a reset before the window", opened, []string{"> R 0 0"}},
		{"a reset in the handshake", nil, []string{"> S 0 0", "< SA 0 1", "> R 2 0", "< A 1 1", "> R 0 0", "> R 1 0", "= end"}},

		// What does not fit is answered at most each 500 ms (RFC 5961, section 7).
		{"resets in the window", asked, []string{"> R 7 0", "< A 1 6", "> R 8 0", "+ 40ms", "< A 1 6", "+ 459ms", "> R 7 0", "+ 1ms", "> R 8 0", "< A 1 6"}},
		{"SYNs", opened, []string{"> S 100 0", "< A 1 1", "> S 0 0", "> SA 1 1"}},
		{"segments behind the window", opened, []string{"> PA 8193 1 query", "< A 1 1", "> PA 8193 1 query"}},
		{"keep-alive probes", answered, []string{"> A 6 7", "> A 5 7", "< A 7 6", "> A 5 7"}},
		{"of various kinds", opened, []string{"> R 2 0", "< A 1 1", "> S 100 0", "> A 1 2", "> A 0 1", "> PA 8193 1 query"}},
		{"a probe gets no answer again", answered, []string{"> A 5 1", "< A 7 6", "> A 5 1", "> PA 1 1 query", "< PA 1 6 answer"}},
		{"behind a FIN", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "> PA 7 7 more", "< A 8 7", "> PA 7 7 more", "> FA 6 7", "< FA 7 7"}},

		// Acknowledgements (RFC 5961, section 5).
		{"of what was never sent", opened, []string{"> A 1 2", "< A 1 1"}},
		{"of what was never sent, with a request", opened, []string{"> PA 1 2 query", "< A 1 1"}},
		{"from before the handshake", opened, []string{"> A 1 -5", "< A 1 1"}},
		{"an old one", answered, []string{"> A 6 7", "> A 6 1"}},
		{"of the answer byte by byte", answered, []string{"+ 199ms", "> A 6 2", "+ 199ms", "> A 6 3", "+ 9601ms", "< PA 3 6 swer", "> A 6 4", "+ 1ms", "= hand over"}},
		{"of the answer byte by byte, while others are awaited", asked, []string{"! respond answer", "< PA 1 6 answer", "> A 6 2", "+ 9999ms", "< PA 2 6 nswer", "> A 6 3", "+ 199ms"}},
		{"of a part of the answer", answered, []string{"> A 6 3", "+ 200ms", "< PA 3 6 swer", "> A 6 7"}},

		// What is lost.
		{"the answer, and the request comes again", answered, []string{"> PA 1 1 query", "< PA 1 6 answer", "> PA 1 1 query", "< PA 1 6 answer", "> FA 6 7", "< FA 7 7", "= close"}},
		{"the answer, and the client waits", answered, []string{"+ 199ms", "+ 1ms", "< PA 1 6 answer", "+ 200ms", "< PA 1 6 answer", "+ 399ms", "+ 1ms", "< PA 1 6 answer"}},
		{"the answer, whatever comes", answered, []string{
			"+ 200ms", "< PA 1 6 answer", "+ 200ms", "< PA 1 6 answer", "+ 400ms", "< PA 1 6 answer", "+ 800ms", "< PA 1 6 answer",
			"+ 1600ms", "< PA 1 6 answer", "+ 3200ms", "< PA 1 6 answer", "+ 3600ms", "< RA 7 6", "= end",
		}},
		{"our FIN, and that of the client comes again", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "> FA 6 7", "< FA 7 7", "> A 7 8", "= end"}},
		{"our FIN, and the client waits", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "+ 200ms", "< FA 7 7", "> A 7 8", "= end"}},
		{"the answer and our FIN", answered, []string{"> FA 6 1", "< FA 7 7", "= close", "> FA 6 1", "< FPA 1 7 answer", "+ 200ms", "< FPA 1 7 answer", "> A 7 8", "= end"}},
		{"the acknowledgement of both, but for the answer", answered, []string{"> FA 6 1", "< FA 7 7", "= close", "> A 7 7", "+ 200ms", "< FA 7 7", "> A 7 8", "= end"}},
		{"the request comes twice while it is worked on", asked, []string{"> PA 1 1 query", "< A 1 6", "! respond answer", "< PA 1 6 answer"}},

		// A late answer.
		{"it is acknowledged first", asked, []string{"+ 39ms", "+ 1ms", "< A 1 6", "+ 10s", "! respond answer", "< PA 1 6 answer", "! done", "+ 200ms", "< PA 1 6 answer", "> A 6 7"}},
		{"no answer", asked, []string{"! done", "+ 40ms", "< A 1 6", "+ 160ms", "= hand over"}},

		// The client closes its side early.
		{"with the request", opened, []string{"> FPA 1 1 query", "= request", "! take", "! respond answer", "< PA 1 7 answer", "! done", "< FA 7 7", "= close", "> A 7 7", "> A 7 8", "= end"}},
		{"behind the request", asked, []string{"> FA 6 1", "! respond answer", "< PA 1 7 answer", "! done", "< FA 7 7", "= close", "> A 7 8", "= end"}},
		{"behind the request, twice", asked, []string{"> FA 6 1", "> FA 6 1", "< A 1 7", "! respond answer", "< PA 1 7 answer", "! done", "< FA 7 7", "= close"}},
		{"behind the request, and the answer is late", asked, []string{"> FA 6 1", "+ 40ms", "< A 1 7", "+ 1s", "! respond answer", "< PA 1 7 answer", "! done", "< FA 7 7", "= close"}},
		{"between the answer and its end", asked, []string{"! respond answer", "< PA 1 6 answer", "> FA 6 7", "! done", "< FA 7 7", "= close"}},
		{"with the request, and there is no answer", opened, []string{"> FPA 1 1 query", "= request", "! take", "! done", "< FA 1 7", "= close", "> A 7 2", "= end"}},
		{"and goes on", answered, []string{"> FA 6 7", "< FA 7 7", "= close", "> PA 7 7 more", "< A 8 7"}},
		{"and goes on while the request is worked on", opened, []string{"> FPA 1 1 query", "= request", "! take", "> PA 7 1 more", "< A 1 7"}},

		// More than a request and a response.
		{"it is no request", opened, []string{"> PA 1 1 qu", "= request", "! take", "! untake"}},
		{"it is no request, with a FIN", opened, []string{"> FPA 1 1 qu", "= request", "! take", "! untake"}},
		{"a second request", answered, []string{"> PA 6 7 query", "= hand over"}},
		{"a second request behind the first", asked, []string{"> PA 6 1 query", "= hand over"}},
		{"out of order", opened, []string{"> PA 2 1 uery", "= hand over"}},
		{"the request again, and more", answered, []string{"> PA 1 7 query and", "= hand over"}},
		{"a FIN out of order", opened, []string{"> FA 2 1", "= hand over"}},
		{"behind the window", opened, []string{"> PA 8193 1 query", "< A 1 1"}},
		{"a request of just the window", opened, []string{"> PA 1 1 " + strings.Repeat("q", light.Window), "= request", "! take"}},
		{"a request that ends behind the window", opened, []string{"> PA 1 1 " + strings.Repeat("q", light.Window+1), "= hand over"}},
		{"a response behind our FIN", opened, []string{"> FPA 1 1 query", "= request", "! take", "! done", "< FA 1 7", "= close", "! respond late", "> A 7 2", "= end"}},
		{"urgent data", opened, []string{"> UPA 1 1 query", "= hand over"}},
		{"urgent data is announced", opened, []string{"> UA 1 1", "= hand over"}},
		{"urgent in the handshake", nil, []string{"> SU 0 0", "< SA 0 1", "> UA 1 1", "= hand over"}},
		{"an answer beside the window", nil, []string{"> S 0 0", "< SA 0 1", "> PA 1 1 5:query", "= request", "! take", "! respond answer", "= hand over"}},
		{"an answer of just the window", nil, []string{"> S 0 0", "< SA 0 1", "> PA 1 1 6:query", "= request", "! take", "! respond answer", "< PA 1 6 answer"}},
		{"the window closes", asked, []string{"> A 6 1 0:", "! respond answer", "= hand over"}},
		{"an old window", asked, []string{"> A 6 1 100:", "! respond answer", "< PA 1 6 answer"}},
		{"a second response", answered, []string{"! respond more", "= hand over"}},
		{"nothing for a while", opened, []string{"+ 199ms", "+ 1ms", "= hand over"}},
		{"nothing for a while behind the answer", answered, []string{"> A 6 7", "+ 199ms", "+ 1ms", "= hand over"}},
		{"a keep-alive probe", answered, []string{"> A 6 7", "> A 5 7", "< A 7 6"}},
		{"no flag", opened, []string{"> - 1 1 query"}},
		{"reset by us", answered, []string{"! abort", "< RA 7 6"}},
	} {
		t.Run(tt.name, func(t *testing.T) { run(t, nil, append(slices.Clone(tt.before), tt.lines...)...) })
	}
}

// The segments, byte by byte, but for ports and checksum.
func TestSegments(t *testing.T) {
	linux := []byte{2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7}
	for _, tt := range []struct {
		name    string
		options []byte
		lines   []string
		want    string
	}{
		{"SYN-ACK", nil, opened[:2], "00000000 fffffffa fffffff9 6012 2000 00000000 0204053c"},
		{"SYN-ACK to Linux", linux, opened[:2], "00000000 fffffffa fffffff9 8012 2000 00000000 0204053c 01010402 01030300"},
		{"SYN-ACK to a window scale", []byte{3, 3, 2, 1}, opened[:2], "00000000 fffffffa fffffff9 7012 2000 00000000 0204053c 01030300"},
		{"SYN-ACK to SACK permitted", []byte{4, 2, 0, 0}, opened[:2], "00000000 fffffffa fffffff9 7012 2000 00000000 0204053c 01010402"},
		{"response", linux, answered, "00000000 fffffffb fffffffe 5018 2000 00000000 616e73776572"},
		{"FIN-ACK", linux, append(slices.Clone(answered), "> FA 6 7", "< FA 7 7", "= close"), "00000000 00000001 ffffffff 5011 2000 00000000"},
		{"reset", linux, append(slices.Clone(answered), "! abort", "< RA 7 6"), "00000000 00000001 fffffffe 5014 0000 00000000"},
		{"reset of a wrong ACK", nil, []string{"> S 0 0", "< SA 0 1", "> A 1 5", "< R 5 -"}, "00000000 ffffffff 00000000 5004 0000 00000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(tt.want, " ", "")
			if got := hex.EncodeToString(run(t, tt.options, tt.lines...).raw); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A response goes into one segment, by the MSS of both sides and the window as it is scaled.
func TestRoomForResponse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []byte
		window  uint16
		want    int // the longest response that is sent
	}{
		{"no MSS", nil, 65535, 536},
		{"a small MSS", []byte{2, 4, 0, 100}, 65535, 536},
		{"that of the client", []byte{2, 4, 4, 0}, 65535, 1024},
		{"ours", []byte{2, 4, 5, 0xb4}, 65535, light.MSS},
		{"the window", []byte{2, 4, 5, 0xb4}, 700, 700},
		{"the window, scaled", []byte{2, 4, 5, 0xb4, 1, 3, 3, 4}, 50, 800},
		{"the window, scaled as far as that goes", []byte{2, 4, 5, 0xb4, 1, 3, 3, 255}, 1, light.MSS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, long := range []int{0, 1} {
				s := run(t, tt.options, "> S 0 0", "< SA 0 1", fmt.Sprintf("> PA 1 1 %d:query", tt.window), "= request", "! take")
				step := s.conn.Respond(make([]byte, tt.want+long), s.now)
				if sent := step.Send.Flags != 0; sent != (long == 0) || (step.Do == light.HandOver) == sent {
					t.Errorf("%d bytes: sent %v", tt.want+long, sent)
				}
			}
		})
	}
}

func TestHandOver(t *testing.T) {
	options := []byte{2, 4, 4, 0, 4, 2, 1, 1, 1, 3, 3, 7}
	for _, tt := range []struct {
		name  string
		lines []string
		want  light.Handover
	}{
		{"behind the handshake", opened, light.Handover{Next: 1, Unacknowledged: 1, Window: 65535}},
		{"with a request", asked, light.Handover{Next: 6, Unacknowledged: 1, Window: 65535}},
		{"with what was no request", append(slices.Clone(opened), "> FPA 1 1 qu", "= request", "! take", "! untake"), light.Handover{Next: 1, Unacknowledged: 1, Window: 65535}},
		{"with a response", answered, light.Handover{Next: 6, Unacknowledged: 1, Response: []byte("answer"), Window: 65535}},
		{"with a part of one", append(slices.Clone(answered), "> A 6 3 100:"), light.Handover{Next: 6, Unacknowledged: 3, Response: []byte("swer"), Window: 100}},
		{"with one that is acknowledged", append(slices.Clone(answered), "> A 6 7"), light.Handover{Next: 6, Unacknowledged: 7, Window: 65535}},
		{"with a FIN", append(slices.Clone(asked), "> FA 6 1"), light.Handover{Next: 6, Unacknowledged: 1, HeardFin: true, Window: 65535}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.MSS, tt.want.Scale, tt.want.SACK = 1024, 7, true
			tt.want.Next += clientFirst
			tt.want.Unacknowledged += serverFirst
			got := run(t, options, tt.lines...).conn.HandOver()
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
