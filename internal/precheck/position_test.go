// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"errors"
	"testing"
)

// An error without a position gets the places that it may be about.
func TestWithPosition(t *testing.T) {
	const text = "a.test b.test {\n    whoami\n}\nc.test {\n    errors\n}\nb.test {\n    errors\n    whoami\n}\n"
	for _, tt := range []struct{ err, want string }{
		{"plugin/whoami: broken", "CONF:2 or CONF:9 - plugin/whoami: broken"},
		{"plugin/cache: broken", "plugin/cache: broken"},
		{"plugin/errors: CONF:5 - broken", "plugin/errors: CONF:5 - broken"},
		{"cannot serve dns://b.test.:53 - it is already defined", "CONF:2 or CONF:8 - cannot serve dns://b.test.:53 - it is already defined"},
		{"cannot serve tls://b.test.:853 on 127.0.0.1 - it is already defined", "CONF:2 or CONF:8 - cannot serve tls://b.test.:853 on 127.0.0.1 - it is already defined"},
	} {
		if got := WithPosition(input(text), errors.New(tt.err)).Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
