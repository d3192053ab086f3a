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
		{"CONF:3 - Error during parsing: Unknown directive 'hedge'", "CONF:3 - Error during parsing: Unknown directive 'hedge'; hedge is a property of ofpunt, expected it between { and } behind ofpunt"},
		{"CONF:3 - Error during parsing: Unknown directive 'limit'", "CONF:3 - Error during parsing: Unknown directive 'limit'; limit is a property of ofpunt, expected it between { and } behind ofpunt"},
		{"CONF:3 - Error during parsing: Unknown directive 'fowrard'", "CONF:3 - Error during parsing: Unknown directive 'fowrard'; expected one that -plugins lists; did you mean forward?"},
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
