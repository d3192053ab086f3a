// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"bytes"
	"os"
	"testing"

	"github.com/puntdns/puntdns/internal/plugincfg"
)

// The list in Go is that of plugin.cfg.
func TestGenerated(t *testing.T) {
	text, err := os.ReadFile("../plugin.cfg")
	if err != nil {
		t.Fatal(err)
	}
	want, err := plugincfg.Generate("plugins", "plugin.cfg", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("zplugins.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("zplugins.go is not what plugin.cfg says; expected `make plugins` after a change")
	}
}
