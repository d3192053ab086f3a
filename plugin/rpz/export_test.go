// SPDX-License-Identifier: Apache-2.0

package rpz

var AddStatus = addStatus
