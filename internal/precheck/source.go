// SPDX-License-Identifier: Apache-2.0

// Package precheck reads a Corefile as a whole and reports mistakes that no plugin sees in its own lines,
// such as unset environment variables, unpaired braces and an open resolver. Only SetupErrors sets up
// plugins.
package precheck

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin("puntdns")

// ServerType is CoreDNS's name for itself in caddy.
const ServerType = "dns"

// Source is the Corefile's path, or Stdin.
type Source string

// Stdin is the Source for standard input.
const Stdin = "stdin"

// String and Set implement flag.Value.
func (f *Source) String() string     { return string(*f) }
func (f *Source) Set(s string) error { *f = Source(s); return nil }

// ErrNoBlock is the error of a Corefile without a server block.
var ErrNoBlock = errors.New("no server block; expected at least one")

// Read reads the Corefile. It refuses a Corefile without a server block, as while an editor writes it: CoreDNS
// would serve a default on port 53. It refuses a surplus }, which caddy takes for a name.
func (f *Source) Read() (caddy.Input, error) {
	path := string(*f)
	var contents []byte
	if path == Stdin {
		in, err := caddy.CaddyfileFromPipe(os.Stdin, ServerType)
		if err != nil {
			return nil, fmt.Errorf("no Corefile: %w", err)
		}
		if in == nil {
			return nil, errors.New("no Corefile: standard input is a terminal; expected a pipe or a file")
		}
		path, contents = in.Path(), in.Body()
	} else {
		var err error
		if contents, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("no Corefile: %w; expected one here, or -conf FILE", err)
		}
	}
	in := caddy.CaddyfileInput{Contents: contents, Filepath: path, ServerTypeName: ServerType}
	if blocks, err := ParseBlocks(in); err == nil && len(blocks) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoBlock)
	}
	if err := checkBraces(in, read(in)); err != nil {
		return nil, err
	}
	return in, nil
}

// ParseBlocks returns the server blocks of a Corefile with its imports.
func ParseBlocks(in caddy.Input) ([]caddyfile.ServerBlock, error) {
	return caddyfile.Parse(in.Path(), bytes.NewReader(in.Body()), nil)
}
