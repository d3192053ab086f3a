// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Use has the server answer at a path from now on, and nowhere else; an empty path closes the
// socket. A path that is in use already stays as it is, with its connections. After an error all
// is as before.
//
// With wait, a path where another process listens is no error: the socket is opened once that
// process has gone. That is for a first start, which must not fail for it: the process before may
// be handing over.
func (s *Server) Use(path string, wait bool, logger Logger) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == s.path && (path == "" || s.waiting != nil || s.socket.isThere()) {
		return nil
	}
	var next *socket
	var later *waiting
	if path != "" {
		l, err := listen(path)
		var held *HeldError
		switch {
		case err == nil:
			next = s.serve(l, path)
			logger.Infof("Control socket: %s", path)
		case wait && errors.As(err, &held):
			logger.Warningf("Control socket: %v; it is opened once that process is gone", err)
			later = s.await(path, logger)
		default:
			return err
		}
	}
	s.end()
	s.path, s.socket, s.waiting = path, next, later
	return nil
}

// Try returns the error that Use would return for a path, and changes nothing.
func (s *Server) Try(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "" || path == s.path && (s.waiting != nil || s.socket.isThere()) {
		return nil
	}
	if err := Check(path); err != nil {
		return err
	}
	if path == s.path {
		return nil // somebody has removed the file of this process's socket
	}
	return holder(path)
}

// end closes the socket and its connections. mu is held.
func (s *Server) end() {
	if s.waiting != nil {
		s.waiting.cancel()
	}
	if s.socket != nil {
		s.socket.close()
	}
}

// retryTime is how often a path is tried that another process has. For as long puntctl may find no socket
// after an upgrade.
const retryTime = 100 * time.Millisecond

// waiting is a goroutine that waits for a path that another process has.
type waiting struct {
	cancel context.CancelFunc
	// problem is the last logged reason why the path can't be opened, empty if another process has it.
	// Server.mu guards it.
	problem string
}

// await opens a path once it is free.
func (s *Server) await(path string, logger Logger) *waiting {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{cancel: cancel}
	go func() {
		defer cancel()
		t := time.NewTicker(retryTime)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if s.tryWaiting(w, path, logger) {
				return
			}
		}
	}()
	return w
}

// tryWaiting tries to open the path that w waits for. It reports whether the waiting is over.
func (s *Server) tryWaiting(w *waiting, path string, logger Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != w {
		return true
	}
	l, err := listen(path)
	var held *HeldError
	if errors.As(err, &held) {
		return false
	}
	if err != nil {
		// Such as a folder that the other process took along: it may come back.
		if problem := err.Error(); problem != w.problem {
			w.problem = problem
			logger.Warningf("Control socket: it is tried again every %s: %v", retryTime, err)
		}
		return false
	}
	s.waiting = nil
	s.socket = s.serve(l, path)
	logger.Infof("Control socket: %s, the process before has gone", path)
	return true
}

// socket is one that is open.
type socket struct {
	path string
	// id identifies its file.
	id     fileID
	server *http.Server
	// streams are the places of the open ones.
	streams <-chan struct{}
	cancel  context.CancelCauseFunc
	done    sync.WaitGroup
}

// serve answers at a listener until close.
func (s *Server) serve(l *net.UnixListener, path string) *socket {
	ctx, cancel := context.WithCancelCause(context.Background())
	o := &socket{path: path, cancel: cancel, streams: s.streams}
	o.id, _ = fileIDOf(path) // without it the file is left to the next process
	o.server = &http.Server{
		Handler:           s.mux,
		ReadHeaderTimeout: s.header,
		// Its end would cancel the context of a request that is being answered.
		ReadTimeout:    s.header + s.answer + s.write,
		WriteTimeout:   s.answer + s.write,
		IdleTimeout:    s.idle,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // what clients do wrong is their matter
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	o.done.Go(func() { _ = o.server.Serve(newScreen(l)) }) // it ends by close only
	return o
}

// isThere reports whether the file of the socket is still its own.
func (o *socket) isThere() bool {
	if o == nil {
		return false
	}
	id, err := fileIDOf(o.path)
	return err == nil && id == o.id
}

// close ends the listener and all connections, and removes the file unless another process has
// one there by now.
func (o *socket) close() {
	if o.isThere() {
		_ = os.Remove(o.path) // the next process replaces it
	}
	o.cancel(ErrClosed)
	o.awaitStreams()
	_ = o.server.Close() // the listener may be closed already
	o.done.Wait()
}

// farewell is how long streams may take for their last line, when the socket is closed.
const farewell = time.Second

// awaitStreams waits until all streams have ended, except for streams whose client does not read.
func (o *socket) awaitStreams() {
	t := time.NewTicker(farewell / 200)
	defer t.Stop()
	for end := time.After(farewell); len(o.streams) > 0; {
		select {
		case <-t.C:
		case <-end:
			return
		}
	}
}
