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
	// RefusedFile is the file in the unit's RuntimeDirectory= that has systemd give access:
	// deploy/puntdns-sockets.path starts a service of root's when the file is there.
	RefusedFile = "refused"

	// accessPatience is how long systemd may take to give access.
	accessPatience = 500 * time.Millisecond
	accessInterval = 10 * time.Millisecond
	// accessRetry is after how long access to a socket that still refuses is asked for again.
	accessRetry = 30 * time.Second
)

// accessRequests has the last request for each socket, an accessRequest by its path.
var accessRequests sync.Map

type accessRequest struct {
	made  time.Time // when the socket was made
	asked time.Time
}

// EnsureAccess asks systemd for access to the socket of a unix endpoint, if the process may not write
// to the socket, and waits for it. A daemon that starts again makes a new socket, without the entry of
// this user in its access control list. EnsureAccess asks once for each socket in 30 s, and only in a unit
// with a RuntimeDirectory= (RUNTIME_DIRECTORY in the environment, systemd.exec(5)).
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
			return // the error of the connection says what the process lacks
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

// mayConnect reports whether access(2) permits a connection to a Unix socket (unix(7)), or fails for another
// reason than permissions.
func (e Endpoint) mayConnect() bool {
	return !errors.Is(unix.Access(e.Address, unix.W_OK), unix.EACCES)
}
