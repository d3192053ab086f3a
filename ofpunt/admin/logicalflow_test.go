// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/ofpunt/bridge"
)

func TestLogicalFlowErrors(t *testing.T) {
	const network = "network=0b3c4d5e-0000-4000-8000-000000000001"
	a := newAnswers(bridge.NewRegistry(nil))
	for _, tc := range []struct {
		query, word string
		status      int
	}{
		{"network=1", "network", http.StatusBadRequest},
		{network + "&table=256&priority=1&cookie=1", "table", http.StatusBadRequest},
		{network + "&table=x&priority=1&cookie=1", "table", http.StatusBadRequest},
		{network + "&table=22&priority=65536&cookie=1", "priority", http.StatusBadRequest},
		{network + "&table=22&priority=1&cookie=0x100000000", "cookie", http.StatusBadRequest},
		{network + "&table=22&priority=1&cookie=0xffffffff&bridge=br-x", "br-x", http.StatusNotFound},
	} {
		parameters, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.logicalFlow(t.Context(), parameters)
		var of *control.Error
		if !errors.As(err, &of) || of.Status != tc.status || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %v", tc.query, err)
		}
	}
}
