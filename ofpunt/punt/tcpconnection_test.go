// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bufio"
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
func dialled(t testing.TB, stack *tcp.Stack, port uint16) (conn *tcp.Conn, say func(flags byte, payload []byte)) {
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

// segments is a stream that comes in segments of these sizes, over and over; 0 stands for 256.
type segments struct {
	stream, sizes []byte
	n             int
}

// Read implements io.Reader.
func (s *segments) Read(p []byte) (int, error) {
	if len(s.stream) == 0 {
		return 0, io.EOF
	}
	size := 256
	if len(s.sizes) > 0 {
		size = int(s.sizes[s.n%len(s.sizes)]-1) + 1
		s.n++
	}
	n := copy(p[:min(size, len(p))], s.stream)
	s.stream = s.stream[n:]
	return n, nil
}

// FuzzFraming reads messages from a stream of anything, in segments of any size. They are those whose
// lengths the stream has, long ones have room reserved, and what is cut off is not read. A stream that is
// one message is taken without a connection too, unless it is long. zeros end the stream: long messages
// take a short input, which is minimized fast.
func FuzzFraming(f *testing.F) {
	stack, err := tcp.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(stack.Close)
	conn, _ := dialled(f, stack, 1000)
	query := string(overTCP(punttest.Query))
	const long = "\x10\x01" // longQuery + 1
	for _, tt := range []struct {
		stream string
		zeros  uint16
	}{
		{query, 0}, {query + query, 0}, {query[:len(query)-1], 0}, {query, 1}, {"\x00\x00" + query, 0}, {"\x00", 0}, {"\xff\xffx", 0},
		{"\x10\x00", longQuery}, {long, longQuery}, {long, longQuery + 1}, {query + long, longQuery + 7}, {"\xff\xff", 0xffff},
	} {
		f.Add([]byte(tt.stream), []byte{}, tt.zeros)
		f.Add([]byte(tt.stream), []byte{1}, tt.zeros)
		f.Add([]byte(tt.stream), []byte{2, 0, 7}, tt.zeros)
	}
	f.Fuzz(func(t *testing.T, stream, sizes []byte, zeros uint16) {
		stream = append(bytes.Clone(stream), make([]byte, zeros)...)
		c := newConnection(nil, conn)
		c.reader = bufio.NewReaderSize(&segments{stream: stream, sizes: sizes}, readAhead)
		var first []byte
		rest, read := stream, 0
		for {
			message, reserved, err := c.read(20 * time.Second)
			conn.Release(reserved)
			whole := len(rest) >= 2 && len(rest)-2 >= int(binary.BigEndian.Uint16(rest))
			if (err == nil) != whole {
				t.Fatalf("message %d: %v, of %d bytes left", read, err, len(rest))
			}
			if err != nil {
				if reserved != 0 || message != nil {
					t.Errorf("%d bytes and %d reserved with %v", len(message), reserved, err)
				}
				break
			}
			n := int(binary.BigEndian.Uint16(rest))
			if !bytes.Equal(message, rest[2:2+n]) {
				t.Fatalf("message %d is %x, want %x", read, message, rest[2:2+n])
			}
			if want := parsedSize * n; n > longQuery && reserved != want || n <= longQuery && reserved != 0 {
				t.Errorf("%d bytes are reserved for %d", reserved, n)
			}
			if rest = rest[2+n:]; read == 0 {
				first = message
			}
			read++
		}
		only, ok := onlyMessage(stream)
		if want := read == 1 && len(rest) == 0 && len(first) <= longQuery; ok != want || ok && !bytes.Equal(only, first) {
			t.Errorf("taken without a connection: %v, %x; want %v, %x", ok, only, want, first)
		}
		const ofOwner = 8 << 20 // is there for a guest
		if !conn.Reserve(ofOwner, time.Now()) {
			t.Fatal("not all is given back")
		}
		conn.Release(ofOwner)
	})
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
