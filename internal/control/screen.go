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

// peerOf returns who has the other end of a connection.
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

// mayAsk returns an error unless a user may ask this process: root and its own user may.
func mayAsk(uid, own uint32) error {
	if uid == 0 || uid == own {
		return nil
	}
	return fmt.Errorf("user %d may not ask here; expected root, or user %d, who runs puntdns", uid, own)
}

// maxRefusals is how many connections get the reason of their refusal; further connections are just closed.
const maxRefusals = 32

// refusalTimeout bounds the time to give a client the reason.
const refusalTimeout = time.Second

// screen is the listener of the HTTP server: it lets in who may ask, as long as there is room.
type screen struct {
	*net.UnixListener
	// room has a place for each connection that is open, refusals for each that is refused.
	room, refusals chan struct{}
}

func newScreen(l *net.UnixListener) *screen {
	return &screen{l, make(chan struct{}, maxConnections), make(chan struct{}, maxRefusals)}
}

// Accept implements net.Listener.
func (s *screen) Accept() (net.Conn, error) {
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

// refuse gives a client the reason of its refusal, in the background.
func (s *screen) refuse(c *net.UnixConn, status int, why error) {
	select {
	case s.refusals <- struct{}{}:
	default:
		_ = c.Close() // there is nothing to lose
		return
	}
	go func() {
		defer func() {
			_ = c.Close()
			<-s.refusals
		}()
		_ = c.SetDeadline(time.Now().Add(refusalTimeout))
		// A client that has not sent its request yet would see a closed connection and no
		// reason.
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

// admitted is a connection that was let in.
type admitted struct {
	*net.UnixConn
	leave func()
}

// Close implements net.Conn.
func (a *admitted) Close() error {
	defer a.leave()
	return a.UnixConn.Close()
}
