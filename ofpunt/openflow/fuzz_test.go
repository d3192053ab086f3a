// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"reflect"
	"testing"
)

func add(f *testing.F, messages ...string) {
	for _, m := range messages {
		f.Add(unhex(f, m))
	}
}

// addBodies adds the bodies of multipart replies.
func addBodies(f *testing.F, messages ...string) {
	for _, m := range messages {
		f.Add(unhex(f, m)[multipartHeaderLen:])
	}
}

var bothVersions = []Version{V13, V15}

func FuzzPacketIn(f *testing.F) {
	add(f, sentPunt13, sentPunt15)
	f.Fuzz(func(t *testing.T, msg []byte) {
		before := bytes.Clone(msg)
		var p PacketIn
		if p.Decode(msg) != nil {
			return
		}
		if !bytes.Equal(before, msg) {
			t.Error("decoding has changed the message")
		}
		if len(p.Data) == 0 || p.FullLen < uint32(len(p.Data)) {
			t.Errorf("frame of %d bytes, full length %d", len(p.Data), p.FullLen)
		}
		for _, part := range [][]byte{p.Data, p.UserData} {
			if cap(part) != len(part) {
				t.Error("a part reaches beyond its end")
			}
		}
		owned := p
		if owned.Own(); !reflect.DeepEqual(owned, p) {
			t.Errorf("%+v with slices of its own, %+v before", owned, p)
		}
		for _, v := range bothVersions {
			b, err := p.AppendResume(nil, v, 1, 30)
			if h, headerErr := parseHeader(b); err == nil && (headerErr != nil || h.length != len(b) || !bytes.HasSuffix(b, p.Data)) {
				t.Errorf("resume % x of %+v: %v", b, p, headerErr)
			}
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add(everyField.append(nil))
	f.Add(sentMatch.append(nil))
	add(f, "00010018 80010f10 0000000e0000000f 000000ff0000ffff", "00010010 ffff0208 00002320 11223344")
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := decodeMatch(b)
		if err != nil {
			return
		}
		if n < 8 || n > len(b) || n%8 != 0 {
			t.Fatalf("match of %d bytes", n)
		}
		_ = m.String()
		if NewMatch(m.Fields()...) != m {
			t.Errorf("%v is not made of its fields", m)
		}
		again, err := decodeOXM([]byte(m.oxm))
		if err != nil || again != m {
			t.Errorf("%v decodes as %v, %v", m, again, err)
		}
	})
}

func FuzzFlowUpdate(f *testing.F) {
	addBodies(f, sentAdded13, sentRemoved13, sentInitial13, sentOwn13, sentAdded15, sentRemoved15, sentInitial15, sentOwn15)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range bothVersions {
			n := 0
			decodeFlowUpdates(b, v, func(u FlowUpdate) {
				n++
				_ = u.Event.String()
			})
			if n > len(b)/8 {
				t.Errorf("%d updates in %d bytes", n, len(b))
			}
		}
	})
}

func FuzzFlowStats(f *testing.F) {
	addBodies(f, sentFlowStats13, sentFlowStats15, sentPorts13, sentPorts15)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range bothVersions {
			if stats, err := decodeFlowStats(b, v); err == nil && len(stats) > len(b)/24 {
				t.Errorf("%d flows in %d bytes", len(stats), len(b))
			}
			if ports, err := decodePorts(b, v); err == nil && len(ports) > len(b)/40 {
				t.Errorf("%d ports in %d bytes", len(ports), len(b))
			}
		}
	})
}

func FuzzMeters(f *testing.F) {
	add(f, "0018000600000007 0001001000000064 0000001400000000", "0000000700380000 0000000000000001"+
		"000000000000001e 0000000000000708 0000000200000003 000000000000000a 0000000000000258", "0003ffff 00000002 0000000f 01000000")
	f.Fuzz(func(t *testing.T, b []byte) {
		if all, err := decodeMeterConfigs(b); err == nil && len(all) > len(b)/meterConfigLen {
			t.Errorf("%d configurations in %d bytes", len(all), len(b))
		}
		if all, err := decodeMeterStats(b); err == nil && len(all) > len(b)/meterStatsLen {
			t.Errorf("%d statistics in %d bytes", len(all), len(b))
		}
		_, _ = decodeMaxMeter(b)
	})
}

func FuzzError(f *testing.F) {
	add(f, sentError13, sentError15, "0601002000000007 ffff0023 00002320 0604001000000007000023200000001c", "0101001c00000000 b0c20000 00002320 00010205 0100000800000000")
	f.Fuzz(func(t *testing.T, msg []byte) {
		if e, err := decodeError(msg); err == nil && e.Error() == "" {
			t.Error("an error without a text")
		}
	})
}

// FuzzMessage gives messages to a connection that waits for everything.
func FuzzMessage(f *testing.F) {
	add(f, sentPunt13, sentPunt15, sentAdded13, sentAdded15, sentInitial13, sentInitial15, sentFlowStats13, sentFlowStats15,
		sentPorts15, sentError13, sentError15, sentFeatures13, sentFeatures15, "0602000900000001ff", "0615000800000001",
		"06210010000000010000000100050000", "04040018000000014f4e4600000008fc0000000100050000",
		"0404001000000000 4f4e4600 0000074f", "06000010000000010001000800000070", portGone13, portCame15)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range bothVersions {
			c := &Conn{version: v, buf: make([]byte, readBuffer), wake: make(chan struct{}, 1), done: make(chan struct{})}
			barrier := untilBarrier(1, 1, func(int) string { return "" })
			var joined int
			stats := &call{first: 0x18, n: 4, monitor: true, refused: fails, reply: func(_ header, msg []byte) (bool, error) {
				_, body, more, err := multipartBody(msg)
				joined += len(body)
				return !more, err
			}}
			for _, k := range []*call{barrier, stats} {
				if err := c.begin(k); err != nil {
					t.Fatal(err)
				}
			}
			c.end = copy(c.buf, b)
			h := Handler{
				PacketIn:    func(*PacketIn) {},
				FlowUpdate:  func(FlowUpdate) {},
				PortStatus:  func(PortStatus) {},
				SwitchError: func(e *SwitchError) { _ = e.Error() },
				Malformed:   func(err error) { _ = err.Error() },
			}
			for {
				msg, err := c.next()
				if err != nil || msg == nil || c.dispatch(msg, &h) != nil {
					break
				}
			}
			if joined > len(b) {
				t.Errorf("%d bytes of replies in %d", joined, len(b))
			}
			decodeHello(b)
			decodeFeatures(b)
			decodeConfig(b)
		}
	})
}
