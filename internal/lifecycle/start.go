// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/ofpunt"
)

// Start starts the Corefile, and handles signals from before it reads it. last is the last directive.
func Start(conf *precheck.Source, last string) error {
	ofpunt.TakeOverAfter(last)
	r := newReloader(conf)
	r.handleSignals()
	in, err := caddy.LoadCaddyfile(precheck.ServerType)
	if err != nil {
		return err
	}
	precheck.Warn(in)
	if blocks, err := precheck.ParseBlocks(in); err == nil { // else start returns the error
		if err := precheck.CheckListeners(in.Path(), blocks); err != nil {
			return err
		}
	}
	return precheck.WithPosition(in, start(in))
}

// start closes what plugins have opened if one fails.
func start(in caddy.Input) error {
	_, err := caddy.Start(in)
	if err != nil {
		_ = corefile.StartFailed()
	}
	return err
}
