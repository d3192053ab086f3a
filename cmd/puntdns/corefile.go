// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
)

// confFlag is the Corefile's path, or stdinConf.
type confFlag string

// stdinConf in the place of a path is for standard input.
const stdinConf = "stdin"

// String and Set implement flag.Value.
func (f *confFlag) String() string     { return string(*f) }
func (f *confFlag) Set(s string) error { *f = confFlag(s); return nil }

// read reads the Corefile. It is an error if there is none, or no server block in it, as
// while an editor writes it anew: CoreDNS would then serve a default on port 53, which
// must not happen by accident on a node.
func (f *confFlag) read() (caddy.Input, error) {
	path := string(*f)
	var contents []byte
	if path == stdinConf {
		in, err := caddy.CaddyfileFromPipe(os.Stdin, serverType)
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
	in := caddy.CaddyfileInput{Contents: contents, Filepath: path, ServerTypeName: serverType}
	if blocks, err := parseBlocks(in); err == nil && len(blocks) == 0 {
		return nil, fmt.Errorf("%s: no server block; expected at least one", path)
	}
	return in, nil
}

// parseBlocks returns the server blocks of a Corefile with what they import.
func parseBlocks(in caddy.Input) ([]caddyfile.ServerBlock, error) {
	return caddyfile.Parse(in.Path(), bytes.NewReader(in.Body()), nil)
}
