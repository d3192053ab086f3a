// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// Target is the destination of lines. It is comparable.
type Target struct {
	Network string
	// Address is an absolute path, else as in endpoint.Endpoint.
	Address string
}

// Forms are the forms that ParseTarget accepts.
const Forms = "an absolute path, unix:PATH or tcp:HOST:PORT"

// ParseTarget parses one of Forms.
func ParseTarget(s string) (Target, error) {
	if filepath.IsAbs(s) {
		return Target{"file", filepath.Clean(s)}, nil
	}
	if !strings.HasPrefix(s, "unix:") && !strings.HasPrefix(s, "tcp:") {
		return Target{}, fmt.Errorf("%q: expected %s", s, Forms)
	}
	e, err := endpoint.Parse(s)
	if err != nil {
		return Target{}, err
	}
	return Target{e.Network, e.Address}, nil
}

// String returns the form that ParseTarget accepts.
func (t Target) String() string {
	if t.Network == "file" {
		return t.Address
	}
	return t.Network + ":" + t.Address
}

// Check returns an error if this user can't write or create the file.
func (t Target) Check() error {
	if t.Network != "file" {
		return nil
	}
	info, err := os.Stat(t.Address)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		folder := filepath.Dir(t.Address)
		if err := unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("%s: %w; expected a folder that this user may write to", folder, err)
		}
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s: a folder; expected a file", t.Address)
	}
	f, err := os.OpenFile(t.Address, openFlags, 0)
	if err != nil {
		return fmt.Errorf("%w; expected a file that this user may write to", err)
	}
	return f.Close()
}
