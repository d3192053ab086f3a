// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeSwitch is the other end of a connection. Its methods do nothing once the
// connection has ended.
type fakeSwitch struct {
	nc net.Conn
	v  Version
}

// read returns the next message, or nil.
func (s *fakeSwitch) read() []byte {
	h := make([]byte, headerLen)
	if _, err := io.ReadFull(s.nc, h); err != nil {
		return nil
	}
	b := append(h, make([]byte, int(be.Uint16(h[2:]))-headerLen)...)
	if _, err := io.ReadFull(s.nc, b[headerLen:]); err != nil {
		return nil
	}
	return b
}

// readType reads until a message of a type comes.
func (s *fakeSwitch) readType(typ uint8) []byte {
	for {
		if b := s.read(); b == nil || b[1] == typ {
			return b
		}
	}
}

// send sends messages in one piece.
func (s *fakeSwitch) send(messages ...[]byte) { s.nc.Write(bytes.Join(messages, nil)) }

// message makes a message with the xid of a request.
func (s *fakeSwitch) message(typ uint8, request []byte, body ...byte) []byte {
	xid := uint32(0)
	if request != nil {
		xid = be.Uint32(request[4:])
	}
	return closeMessage(append(appendHeader(nil, s.v, typ, xid), body...), 0)
}

// refusal makes an error message about a request.
func (s *fakeSwitch) refusal(request []byte, typ, code uint16) []byte {
	body := be.AppendUint16(be.AppendUint16(nil, typ), code)
	return s.message(typeError, request, append(body, request...)...)
}

func (s *fakeSwitch) hello() {
	s.read()
	s.send(appendHello(nil, 1, []Version{s.v}))
}

// handshake is what a switch does when all goes well.
func (s *fakeSwitch) handshake() {
	s.hello()
	s.features()
	s.send(s.message(typeBarrierReply, s.readType(typeBarrier)))
}

func (s *fakeSwitch) features() {
	features, config := s.read(), s.read()
	s.send(s.message(typeFeaturesReply, features, make([]byte, 24)...), s.message(typeGetConfigReply, config, 0, 0, 0, 0))
}

// newFake returns both ends of a connection.
func newFake(t *testing.T, v Version) (*fakeSwitch, net.Conn) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return &fakeSwitch{theirs, v}, ours
}

// connectFake shakes hands, starts the script of the switch and serves.
func connectFake(t *testing.T, v Version, h Handler, script func(s *fakeSwitch)) (c *Conn, served chan error) {
	t.Helper()
	s, nc := newFake(t, v)
	go func() {
		s.handshake()
		script(s)
	}()
	c, err := NewConn(t.Context(), nc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- c.Serve(h) }()
	t.Cleanup(func() { c.Close() })
	return c, served
}

func TestHandshakeFails(t *testing.T) {
	tests := []struct {
		name   string
		script func(s *fakeSwitch)
		want   string
	}{
		{"hello refused", func(s *fakeSwitch) {
			s.read()
			s.send(s.message(typeError, nil, append([]byte{0, 0, 0, 0}, "go away"...)...))
		}, `OFPHFC_INCOMPATIBLE ("go away")`},
		{"controller id refused", func(s *fakeSwitch) {
			s.hello()
			s.features()
			s.readType(typeExperimenter)
			request := s.readType(typeExperimenter)
			s.readType(typeBarrier)
			s.send(s.refusal(request, 1, 3))
		}, "switch refused NXT_SET_CONTROLLER_ID: OFPBRC_BAD_VENDOR"},
		{"short features", func(s *fakeSwitch) {
			s.hello()
			request := s.readType(typeFeaturesRequest)
			s.read()
			s.send(s.message(typeFeaturesReply, request, 1, 2, 3))
		}, "malformed OpenFlow: features reply of 11 bytes"},
		{"no OpenFlow", func(s *fakeSwitch) {
			s.read()
			s.send([]byte("SSH-2.0-OpenSSH"))
			s.nc.Close()
		}, "EOF"},
		{"short header", func(s *fakeSwitch) {
			s.read()
			s.send([]byte{6, 0, 0, 7, 0, 0, 0, 0})
		}, "header with length 7"},
		{"silence", func(s *fakeSwitch) { s.read() }, "deadline exceeded"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nc := newFake(t, V15)
				go test.script(s)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				c, err := NewConn(ctx, nc, Options{ControllerID: 7})
				if err == nil {
					c.Close()
					t.Fatal("the handshake succeeded")
				}
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %q, want one with %q", err, test.want)
				}
				if _, err := nc.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the socket is still open: %v", err)
				}
			})
		})
	}
}

func TestHandshakeHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := newFake(t, V15)
		go s.read()
		reason := errors.New("no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(reason)
		}()
		if _, err := NewConn(ctx, nc, Options{}); !errors.Is(err, reason) {
			t.Errorf("error %v, want the reason of the context", err)
		}
	})
}

func TestUnsupportedVersion(t *testing.T) {
	_, nc := newFake(t, V15)
	if _, err := NewConn(t.Context(), nc, Options{Versions: []Version{V15, 5}}); err == nil || !strings.Contains(err.Error(), "OpenFlow 1.4 is not supported") {
		t.Errorf("error %v", err)
	}
}

// TestHandshakeKeepsPunts: what comes before Serve runs is not lost, nor does
// an echo request stay without an answer.
func TestHandshakeKeepsPunts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := newFake(t, V15)
		echoed := make(chan []byte, 1)
		go func() {
			s.hello()
			request := s.readType(typeFeaturesRequest)
			config := s.read()
			s.send(s.message(typeEchoRequest, nil, 'x'))
			echoed <- s.readType(typeEchoReply)
			s.send(s.message(typeFeaturesReply, request, make([]byte, 24)...), s.message(typeGetConfigReply, config, 0, 0, 0, 0))
			s.send(unhex(t, sentPunt15), s.message(typeBarrierReply, s.readType(typeBarrier)))
		}()
		c, err := NewConn(t.Context(), nc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if b := <-echoed; string(b[headerLen:]) != "x" {
			t.Errorf("echo reply % x", b)
		}
		var calls []string
		served := make(chan error)
		go func() {
			served <- c.Serve(Handler{
				PacketIn: func(p *PacketIn) { calls = append(calls, string(p.UserData)) },
			})
		}()
		synctest.Wait()
		c.Close()
		<-served
		if diff := cmp.Diff([]string{"who"}, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		say := func(format string, args ...any) { calls = append(calls, fmt.Sprintf(format, args...)) }
		h := Handler{
			PacketIn:    func(p *PacketIn) { say("packet-in for %s", p.UserData) },
			FlowUpdate:  func(u FlowUpdate) { say("flow %v %v", u.Event, u.Match) },
			PortStatus:  func(s PortStatus) { say("port %s, gone %v", s.Port.Name, s.Gone) },
			SwitchError: func(e *SwitchError) { say("%v", e) },
			Malformed:   func(err error) { say("%v", err) },
		}
		punt := unhex(t, sentPunt15)
		broken := bytes.Clone(punt)
		broken[17] = 1 // the packet becomes something of the wrong length
		echoed := make(chan []byte, 1)
		_, served := connectFake(t, V15, h, func(s *fakeSwitch) {
			packetOut := s.message(typePacketOut, nil, make([]byte, 60)...)
			// A message in three pieces, then many in one.
			s.send(punt[:5])
			s.send(punt[5:20])
			s.send(punt[20:])
			s.send(punt, broken, unhex(t, sentAdded15), unhex(t, sentOwn15), punt)
			s.send(s.refusal(packetOut, 2, 10))
			s.send(unhex(t, portCame15))
			// What nobody has asked for.
			s.send(s.message(typeFlowRemoved, nil, make([]byte, 72)...), s.message(typeBarrierReply, nil), s.message(typeExperimenter, nil, 1, 2, 3, 4, 5, 6, 7, 8))
			s.send(s.message(typeEchoRequest, nil, 'x', 'y'))
			echoed <- s.read()
			s.nc.Close()
		})
		if b := <-echoed; b[1] != typeEchoReply || string(b[headerLen:]) != "xy" {
			t.Errorf("echo reply % x", b)
		}
		if err := <-served; !errors.Is(err, io.EOF) {
			t.Errorf("Serve returned %v", err)
		}
		want := []string{
			"packet-in for who",
			"packet-in for who",
			"malformed OpenFlow: packet-in: property 1 with 60 bytes",
			"flow added metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3",
			"flow own ",
			"packet-in for who",
			"switch refused PACKET_OUT: OFPBAC_MATCH_INCONSISTENT",
			"port va2, gone false",
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestServeEnds(t *testing.T) {
	tests := []struct {
		name, msg, want string
	}{
		{"header of 7 bytes", "0613000700000000", "header with length 7"},
		{"another version", "0413001000000000 0010000000000000", "message of type 19 in OpenFlow 1.3, not OpenFlow 1.5"},
		{"short error message", "0601000900000000ff", "error message of 9 bytes"},
		{"short multipart reply", "0613000900000000ff", "multipart reply of 9 bytes"},
		{"broken port status", "060c001000000000 0000000000000000", "port status about 0 ports"},
		{"broken flow update", "0613001800000000 0010000000000000 0000000100000000", "flow update 1 with length 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, served := connectFake(t, V15, Handler{FlowUpdate: func(FlowUpdate) {}}, func(s *fakeSwitch) { s.send(unhex(t, test.msg)) })
				err := <-served
				if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Serve returned %v, want %q", err, test.want)
				}
				if again := c.Barrier(t.Context()); !errors.Is(again, err) {
					t.Errorf("a barrier afterwards: %v", again)
				}
			})
		})
	}
}

func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, served := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
			for range 3 {
				s.send(s.message(typeEchoReply, s.readType(typeEchoRequest)))
			}
			for s.read() != nil {
			}
		})
		err := <-served
		if !errors.Is(err, ErrNoEcho) {
			t.Errorf("Serve returned %v", err)
		}
		// Three echoes answered, a fourth not.
		if lived, want := time.Since(start), 4*5*time.Second+5*time.Second; lived != want {
			t.Errorf("lived for %v, want %v", lived, want)
		}
	})
}

// A reply counts that is read a moment after the deadline, as by a process that was stopped for longer.
func TestReplyAfterDeadline(t *testing.T) {
	for _, tt := range []struct {
		late time.Duration // after the deadline
		err  error
	}{{unread / 2, nil}, {2 * unread, context.DeadlineExceeded}} {
		synctest.Test(t, func(t *testing.T) {
			c, served := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
				xid := s.readType(typeBarrier)
				time.Sleep(time.Second + tt.late)
				s.send(s.message(typeBarrierReply, xid))
				for s.read() != nil {
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := c.Barrier(ctx); !errors.Is(err, tt.err) {
				t.Errorf("a reply %v late: %v, want %v", tt.late, err, tt.err)
			}
			time.Sleep(tt.late)
			c.Close()
			<-served
		})
	}
}

// TestSlowSwitch: a switch that reads nothing costs bounded memory and the
// connection.
func TestSlowSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, served := connectFake(t, V15, Handler{}, func(*fakeSwitch) {})
		msg := appendEmpty(make([]byte, 0, 1<<16), V15, typeEchoReply, 1)
		msg = closeMessage(append(msg, make([]byte, 1<<16-16)...), 0)
		written := 0
		for {
			err := c.Write(msg, Soon, false)
			if errors.Is(err, ErrQueueFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if written += len(msg); written > 3*maxQueued {
				t.Fatal("the queue has no bound")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Barrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("barrier: %v", err)
		}
		if err := <-served; err == nil || !strings.Contains(err.Error(), "writing") {
			t.Errorf("Serve returned %v", err)
		}
	})
}

// A switch that is slow to read what was queued loses no connection for its echo requests,
// nor for ours: what is queued reaches it.
func TestEchoWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queued = 12 // a type that nothing else has
		full := make(chan struct{})
		got := 0
		c, served := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
			<-full
			s.send(appendEmpty(nil, V15, typeEchoRequest, 7))
			for msg := s.read(); msg != nil; msg = s.read() {
				switch msg[1] {
				case queued:
					got++
				case typeEchoReply:
					t.Error("the reply found room")
				case typeBarrier:
					s.send(s.message(typeBarrierReply, msg))
				}
			}
		})
		msg := closeMessage(append(appendEmpty(make([]byte, 0, 1<<16), V15, queued, 1), make([]byte, 1<<16-16)...), 0)
		written := 0
		for round := range 2 { // the writer takes the first away
			if round > 0 {
				synctest.Wait()
			}
			for ; ; written++ {
				if err := c.Write(msg, Soon, false); errors.Is(err, ErrQueueFull) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		// No more room for an echo than for this.
		for c.Write(appendEmpty(nil, V15, queued, 2), Soon, false) == nil {
			written++
		}
		close(full)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Barrier(ctx); err != nil {
			t.Errorf("barrier: %v", err)
		}
		if got != written {
			t.Errorf("%d of %d messages arrived", got, written)
		}
		c.Close()
		<-served
	})
}

// What may be lost leaves half of the queue to what must not.
func TestWriteThatMayBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, served := connectFake(t, V15, Handler{}, func(*fakeSwitch) {})
		msg := appendEmpty(make([]byte, 0, 1<<16), V15, typeEchoReply, 1)
		msg = closeMessage(append(msg, make([]byte, 1<<16-16)...), 0)
		fill := func(mayBeLost bool) (n int) {
			for ; n < 3*maxQueued; n += len(msg) {
				if err := c.Write(msg, Soon, mayBeLost); err != nil {
					if !errors.Is(err, ErrQueueFull) {
						t.Fatal(err)
					}
					return n
				}
			}
			return n
		}
		bestEffort := fill(true)
		synctest.Wait() // until the writer has taken what it can
		if rest := fill(false); rest < maxQueued/2-len(msg) {
			t.Errorf("%d bytes found room after %d that leave it", rest, bestEffort)
		}
		for _, when := range []When{Soon, Now, AfterHandlers, AfterTasks} {
			if err := c.Write(msg, when, true); !errors.Is(err, ErrQueueFull) {
				t.Errorf("when %d, in a full queue: %v", when, err)
			}
		}
		c.Close()
		<-served
	})
}

// TestMonitorRefused: Open vSwitch answers in OpenFlow 1.0, about other bytes.
func TestMonitorRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stray []error
		c, served := connectFake(t, V15, Handler{SwitchError: func(e *SwitchError) { stray = append(stray, e) }}, func(s *fakeSwitch) {
			s.readType(typeMultipart)
			s.send(unhex(t, "0101001c00000000 b0c20000 00002320 00010200 0000000800000000"))
			s.send(s.message(typeBarrierReply, s.readType(typeBarrier)))
			// The next one has no answer at all.
			s.send(s.message(typeBarrierReply, s.readType(typeBarrier)))
		})
		err := c.MonitorFlows(t.Context(), 1, 29)
		var refused *SwitchError
		if !errors.As(err, &refused) || err.Error() != "flow monitor on table 29: switch refused FLOW_MONITOR_REQUEST: OFPBRC_BAD_TABLE_ID" {
			t.Errorf("error %v", err)
		}
		if err := c.MonitorFlows(t.Context(), 2, 29); err == nil || errors.As(err, &refused) {
			t.Errorf("error %v without an answer", err)
		}
		c.Close()
		<-served
		if len(stray) > 0 {
			t.Errorf("the error came as one of nobody, too: %v", stray)
		}
	})
}

// TestMonitorInitial: what comes as a reply is initial, in 1.3 too, and is all
// there when the call returns.
func TestMonitorInitial(t *testing.T) {
	for v, reply := range map[Version]string{V13: sentInitial13, V15: sentInitial15} {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []FlowEvent
				h := Handler{FlowUpdate: func(u FlowUpdate) { events = append(events, u.Event) }}
				c, served := connectFake(t, v, h, func(s *fakeSwitch) {
					request := s.readType(typeMultipart)
					part := unhex(t, reply)
					copy(part[4:8], request[4:8])
					first := bytes.Clone(part)
					first[11] = multipartMore
					update := unhex(t, map[Version]string{V13: sentAdded13, V15: sentAdded15}[v])
					s.send(first, update, part, s.message(typeBarrierReply, s.readType(typeBarrier)))
					s.read()
				})
				if err := c.MonitorFlows(t.Context(), 1, 29); err != nil {
					t.Fatal(err)
				}
				c.Close()
				<-served
				if diff := cmp.Diff([]FlowEvent{FlowInitial, FlowAdded, FlowInitial}, events); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestMonitorPauses13(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []FlowEvent
		h := Handler{FlowUpdate: func(u FlowUpdate) { events = append(events, u.Event) }}
		_, served := connectFake(t, V13, h, func(s *fakeSwitch) {
			s.send(unhex(t, "0404001000000000 4f4e4600 0000074f"), unhex(t, "0404001000000000 4f4e4600 00000750"))
			s.nc.Close()
		})
		<-served
		if diff := cmp.Diff([]FlowEvent{FlowPaused, FlowResumed}, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestReplyIsBounded: a reply without an end ends the request, not the memory.
func TestReplyIsBounded(t *testing.T) {
	c, _ := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
		part := s.message(typeMultipartReply, s.readType(typeMultipart), append([]byte{0, 1, 0, multipartMore, 0, 0, 0, 0}, make([]byte, 1<<16-32)...)...)
		for range 2 * maxReply / len(part) {
			if _, err := s.nc.Write(part); err != nil {
				return
			}
		}
	})
	if _, err := c.FlowStats(t.Context(), FlowStatsRequest{}); err == nil || !strings.Contains(err.Error(), "reply of more than") {
		t.Errorf("error %v", err)
	}
}

func TestRequestsEnd(t *testing.T) {
	requests := map[string]func(ctx context.Context, c *Conn) error{
		"barrier":    func(ctx context.Context, c *Conn) error { return c.Barrier(ctx) },
		"apply":      func(ctx context.Context, c *Conn) error { return c.Apply(ctx, []FlowMod{{}}) },
		"flow stats": func(ctx context.Context, c *Conn) error { _, err := c.FlowStats(ctx, FlowStatsRequest{}); return err },
		"ports":      func(ctx context.Context, c *Conn) error { _, err := c.PortDescs(ctx); return err },
		"monitor":    func(ctx context.Context, c *Conn) error { return c.MonitorFlows(ctx, 1, 1) },
		"meters":     func(ctx context.Context, c *Conn) error { return c.ModMeters(ctx, []MeterMod{{ID: 1}}) },
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
					for b := s.read(); b != nil; b = s.read() {
						if b[1] == typeEchoRequest {
							s.send(s.message(typeEchoReply, b))
						}
					}
				})
				reason := errors.New("no time")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, reason)
				defer cancel()
				if err := request(ctx, c); !errors.Is(err, reason) {
					t.Errorf("error %v at the end of the context", err)
				}
				ended := make(chan error)
				go func() { ended <- request(t.Context(), c) }()
				synctest.Wait()
				c.Close()
				// The monitor's id is in use since the first request.
				if err := <-ended; !errors.Is(err, net.ErrClosed) && name != "monitor" {
					t.Errorf("error %v at the end of the connection", err)
				}
				if len(c.calls) > 0 {
					t.Errorf("%d calls are left", len(c.calls))
				}
			})
		})
	}
}

// TestApplyUnknown: when the time is over during the commit nobody knows.
func TestApplyUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, _ := connectFake(t, V15, Handler{}, func(s *fakeSwitch) {
			s.send(s.message(typeBarrierReply, s.readType(typeBarrier)))
			s.readType(typeBundleControl)
			cancel()
		})
		err := c.Apply(ctx, []FlowMod{{}})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "unknown whether") {
			t.Errorf("error %v", err)
		}
	})
}

func TestXIDs(t *testing.T) {
	c := &Conn{}
	c.xid.Store(^uint32(0) - 2)
	for _, want := range []uint32{^uint32(0) - 1, ^uint32(0), 1, 2} {
		if got := c.NextXID(); got != want {
			t.Errorf("xid %#x, want %#x", got, want)
		}
	}
	c.xid.Store(^uint32(0) - 2)
	if first := c.reserve(10); first == 0 || first > first+9 {
		t.Errorf("ten xids from %#x", first)
	}
}
