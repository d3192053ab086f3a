// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/control/api"
)

func peerOf(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(err, failed)
}

func mayAsk(uid, own uint32) error {
	if uid == 0 || uid == own {
		return nil
	}
	return fmt.Errorf("user %d may not ask here; expected root, or user %d, who runs puntdns", uid, own)
}

// maxRefusals limits the connections that get a reason; further connections are just closed.
const maxRefusals = 32

const refusalTimeout = time.Second

// listener accepts connections of permitted users, up to maxConnections.
type listener struct {
	*net.UnixListener
	// room and refusals have an element for each connection.
	room, refusals chan struct{}
}

func newListener(l *net.UnixListener) *listener {
	return &listener{l, make(chan struct{}, maxConnections), make(chan struct{}, maxRefusals)}
}

func (s *listener) Accept() (net.Conn, error) {
	for {
		c, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(c)
		if err == nil {
			err = mayAsk(peer.Uid, uint32(os.Geteuid()))
		}
		if err != nil {
			s.refuse(c, http.StatusForbidden, err)
			continue
		}
		select {
		case s.room <- struct{}{}:
			return &admitted{UnixConn: c, leave: sync.OnceFunc(func() { <-s.room })}, nil
		default:
			s.refuse(c, http.StatusServiceUnavailable, fmt.Errorf("%d connections are open; expected fewer, try again", maxConnections))
		}
	}
}

// refuse sends the reason in the background.
func (s *listener) refuse(c *net.UnixConn, status int, why error) {
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() {
			_ = c.Close()
			<-s.refusals
		}()
		_ = c.SetDeadline(time.Now().Add(refusalTimeout))
		// A client still sending would see a reset instead of the reason.
		var request [maxHeader]byte
		for n := 0; n < len(request) && !bytes.Contains(request[:n], []byte("\r\n\r\n")); {
			more, err := c.Read(request[n:])
			if n += more; err != nil {
				break
			}
		}
		text, _ := json.Marshal(api.Error{Message: why.Error()}) // a string can always be encoded
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s\n",
			status, http.StatusText(status), len(text)+1, text)
	}()
}

// admitted calls leave when it is closed.
type admitted struct {
	*net.UnixConn
	leave func()
}

func (a *admitted) Close() error {
	defer a.leave()
	return a.UnixConn.Close()
}
