// SPDX-License-Identifier: Apache-2.0

package explain

// Policy is api.CodePolicy, for plugin egress.
const Policy = "policy"
