// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// RefusedFile in RuntimeDirectory= starts deploy/puntdns-sockets.path, whose service of root gives
	// access.
	RefusedFile = "refused"

	// accessPatience is how long systemd may take.
	accessPatience = 500 * time.Millisecond
	accessInterval = 10 * time.Millisecond
	// accessRetry is for a socket that still refuses.
	accessRetry = 30 * time.Second
)

// accessRequests maps a path to its last accessRequest.
var accessRequests sync.Map

type accessRequest struct {
	made  time.Time // when the socket was made
	asked time.Time
}

// EnsureAccess asks systemd for write access to a unix endpoint's socket, and waits. A restarted daemon makes
// a new socket without this user's ACL entry. It asks once in 30 s for each socket, only with
// RUNTIME_DIRECTORY (systemd.exec(5)).
func (e Endpoint) EnsureAccess(ctx context.Context) {
	folder, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	if folder == "" || e.Network != "unix" || e.mayConnect() {
		return
	}
	info, err := os.Stat(e.Address)
	if err != nil {
		return // of a folder on the way, which tmpfiles does not open
	}
	last, _ := accessRequests.Load(e.Address)
	request, _ := last.(accessRequest)
	switch age := time.Since(request.asked); {
	case !request.made.Equal(info.ModTime()) || age > accessRetry:
		if err := os.WriteFile(filepath.Join(folder, RefusedFile), nil, 0o600); err != nil {
			return // the connection's error says what is missing
		}
		accessRequests.Store(e.Address, accessRequest{info.ModTime(), time.Now()})
	case age > accessPatience:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, accessPatience)
	defer cancel()
	for !e.mayConnect() && Sleep(ctx, accessInterval) == nil {
	}
}

// mayConnect is true unless access(2) denies a write (unix(7)).
func (e Endpoint) mayConnect() bool {
	return !errors.Is(unix.Access(e.Address, unix.W_OK), unix.EACCES)
}
