// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"strings"
	"testing"
)

// Any id of a session works, and no two sessions share a file.
func TestFileName(t *testing.T) {
	long := strings.Repeat("é/x", 400)
	for _, id := range []string{"a", "../../etc/passwd", "a\x00b\x1b", long, long + "y"} {
		if name := fileName(id); len(name) > maxName || strings.ContainsAny(name, "/\x00\x1b") {
			t.Errorf("%q is saved as %q", id, name)
		}
	}
	if fileName(long) == fileName(long+"y") {
		t.Error("two sessions are saved in one file")
	}
}
