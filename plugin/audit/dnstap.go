// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"

	clog "github.com/coredns/coredns/plugin/pkg/log"
)

func init() {
	_ = clog.RegisterListener(dnstapListener{}) // the error is always nil
}

// dnstapListener reads dropped messages from dnstap's log.
type dnstapListener struct{}

func (dnstapListener) Name() string { return "audit" }

func (dnstapListener) Warningf(plugin, format string, v ...any) {
	if !strings.HasPrefix(plugin, "plugin/dnstap") || !strings.HasPrefix(format, "Dropped dnstap messages: %d") || len(v) != 1 {
		return
	}
	if n, ok := v[0].(uint32); ok {
		dnstapDropped.Add(float64(n))
	}
}

func (dnstapListener) Debug(string, ...any)          {}
func (dnstapListener) Debugf(string, string, ...any) {}
func (dnstapListener) Info(string, ...any)           {}
func (dnstapListener) Infof(string, string, ...any)  {}
func (dnstapListener) Warning(string, ...any)        {}
func (dnstapListener) Error(string, ...any)          {}
func (dnstapListener) Errorf(string, string, ...any) {}
func (dnstapListener) Fatal(string, ...any)          {}
func (dnstapListener) Fatalf(string, string, ...any) {}
