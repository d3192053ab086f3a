// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// wire takes the first segments of a tcp.Stack; the others are lost.
type wire chan []byte

func (w wire) Send(b []byte) {
	select {
	case w <- bytes.Clone(b):
	default:
	}
}

// dialled is a connection to the stack from a port of a guest. What is said comes there.
func dialled(t *testing.T, stack *tcp.Stack, port uint16) (conn *tcp.Conn, say func(flags byte, payload []byte)) {
	t.Helper()
	w := make(wire, 1)
	key := tcp.Key{Network: "red", Owner: "vm", Src: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.11"), port), Dst: netip.MustParseAddrPort("169.254.169.254:53")}
	next, acknowledged := uint32(7), uint32(0)
	say = func(flags byte, payload []byte) {
		t.Helper()
		s := binary.BigEndian.AppendUint16(nil, port)
		s = binary.BigEndian.AppendUint32(append(s, 0, 53), next)
		s = append(binary.BigEndian.AppendUint32(s, acknowledged), 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
		if got, _ := stack.Deliver(key, tcp.MaxOfOwner, w, append(s, payload...), time.Now()); got != tcp.Begun && got != tcp.Delivered && got != tcp.Passed {
			t.Fatalf("outcome %d", got)
		}
		next += uint32(len(payload))
	}
	say(punttest.SYN, nil)
	select {
	case b := <-w:
		next, acknowledged = next+1, binary.BigEndian.Uint32(b[4:])+1
	case <-time.After(20 * time.Second):
		t.Fatal("no SYN-ACK")
	}
	say(punttest.ACK, nil)
	conn, err := stack.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return conn, say
}

// A long message has room reserved for it, parsed, before it is read, and waits for that;
// what was not read whole gives it back.
func TestReadLong(t *testing.T) {
	stack, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stack.Close)
	const ofOwner = 8 << 20 // is there for a guest
	type result struct {
		message  []byte
		reserved int
		err      error
	}
	for i, tt := range []struct {
		name          string
		length        int
		others        int  // bytes that are reserved before
		waits, cutOff bool // the guest says less
		reserved      int
	}{
		{name: "not long", length: 4096, others: ofOwner},
		{name: "long", length: 4097, reserved: 16 * 4097},
		{name: "long, with just the room", length: 4097, others: ofOwner - 16*4097, reserved: 16 * 4097},
		{name: "long, beside others", length: 4097, others: ofOwner - 16*4097 + 1, waits: true, reserved: 16 * 4097},
		{name: "cut off", length: 4097, cutOff: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, say := dialled(t, stack, uint16(1000+i))
			defer conn.Close()
			if !conn.Reserve(tt.others, time.Now().Add(20*time.Second)) {
				t.Fatal("no room for others")
			}
			message := bytes.Repeat([]byte{'x'}, tt.length)
			data := append(binary.BigEndian.AppendUint16(nil, uint16(tt.length)), message...)
			if tt.cutOff {
				data = data[:len(data)-1]
			}
			for segment := range slices.Chunk(data, 1000) {
				say(punttest.ACK, segment)
			}
			if tt.cutOff {
				say(punttest.ACK|punttest.FIN, nil)
			}
			c := newConnection(nil, conn)
			read := make(chan result, 1)
			go func() {
				var r result
				r.message, r.reserved, r.err = c.read(20 * time.Second)
				read <- r
			}()
			if tt.waits {
				select {
				case r := <-read:
					t.Fatalf("%d bytes, %d reserved, %v, though there is no room", len(r.message), r.reserved, r.err)
				case <-time.After(50 * time.Millisecond): // it would be there by then
				}
				conn.Release(tt.others)
			}
			r := <-read
			switch {
			case tt.cutOff:
				if !errors.Is(r.err, io.ErrUnexpectedEOF) {
					t.Errorf("error %v", r.err)
				}
			case r.err != nil || !bytes.Equal(r.message, message):
				t.Errorf("%d bytes of %d, %v", len(r.message), tt.length, r.err)
			}
			if r.reserved != tt.reserved {
				t.Errorf("%d bytes are reserved, want %d", r.reserved, tt.reserved)
			}
			conn.Release(r.reserved)
			if !tt.waits {
				conn.Release(tt.others)
			}
			if !conn.Reserve(ofOwner, time.Now()) {
				t.Fatal("not all is given back")
			}
			conn.Release(ofOwner)
		})
	}
}
