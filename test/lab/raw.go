// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFrame is more than any frame of a veth pair without offload.
const maxFrame = 1 << 16

// Raw sends and receives whole Ethernet frames on the guest's interface.
type Raw struct {
	f    *os.File
	conn syscall.RawConn
	buf  []byte
}

// Raw opens a packet socket on the guest's interface. It sees every frame that
// reaches the guest, whatever its destination, and none that the guest sends.
func (g *Guest) Raw() *Raw {
	g.l.t.Helper()
	var r *Raw
	err := g.Do(func() (err error) {
		r, err = openRaw(Iface)
		return err
	})
	if err != nil {
		g.l.t.Fatalf("guest %s: packet socket: %v", g.Name, err)
	}
	return r
}

func openRaw(name string) (*Raw, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	// No protocol before bind: nothing of other interfaces gets in.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "packet:"+name)
	for _, opt := range []int{unix.PACKET_AUXDATA, unix.PACKET_IGNORE_OUTGOING} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, opt, 1); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifi.Index}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Raw{f: f, conn: conn, buf: make([]byte, maxFrame)}, nil
}

// Send sends one frame, Ethernet header first.
func (r *Raw) Send(frame []byte) error {
	if _, err := r.f.Write(frame); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// Recv returns the next frame, VLAN tag included, or the context's error.
func (r *Raw) Recv(ctx context.Context) ([]byte, error) {
	if err := r.f.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		// The only failure is a closed socket, which ends the read as well.
		_ = r.f.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	var n, oobn int
	var err error
	var oob [128]byte
	e := r.conn.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), r.buf, oob[:], 0)
		return err != unix.EAGAIN
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := errors.Join(e, err); err != nil {
		return nil, fmt.Errorf("receive frame: %w", err)
	}
	return untakeTag(r.buf[:n], oob[:oobn])
}

// RecvMatch returns the next frame that f accepts.
func (r *Raw) RecvMatch(ctx context.Context, f func(frame []byte) bool) ([]byte, error) {
	for {
		frame, err := r.Recv(ctx)
		if err != nil || f(frame) {
			return frame, err
		}
	}
}

// Close closes the socket.
func (r *Raw) Close() error { return r.f.Close() }

// untakeTag copies a frame and puts the VLAN tag back, which the kernel takes
// out and reports beside the frame (packet(7), PACKET_AUXDATA).
func untakeTag(frame, oob []byte) ([]byte, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	const macs = 12
	for _, m := range msgs {
		var aux unix.TpacketAuxdata
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < int(unsafe.Sizeof(aux)) {
			continue
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&aux)), unsafe.Sizeof(aux)), m.Data)
		if aux.Status&unix.TP_STATUS_VLAN_VALID == 0 || len(frame) < macs {
			continue
		}
		tpid := uint16(unix.ETH_P_8021Q)
		if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = aux.Vlan_tpid
		}
		tag := binary.BigEndian.AppendUint16(nil, tpid)
		tag = binary.BigEndian.AppendUint16(tag, aux.Vlan_tci)
		return slices.Concat(frame[:macs], tag, frame[macs:]), nil
	}
	return slices.Clone(frame), nil
}
