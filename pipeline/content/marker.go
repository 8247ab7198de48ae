// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// LongMarker reports whether the client asks for the long cache lifetime.
func LongMarker(v *wire.View) bool {
	for i := range v.Blocks {
		if m := v.Blocks[i].Marker; !m.Empty() && IsLong(v.Bytes(m)) {
			return true
		}
	}
	return IsLong(v.Bytes(v.Caching.AutoMarker))
}

// IsLong reports whether a cache marker asks for the long lifetime.
func IsLong(marker []byte) bool { return bytes.Contains(marker, []byte(`"1h"`)) }
