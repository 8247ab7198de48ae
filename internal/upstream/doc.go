// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream describes the upstream: presets with their properties, and the layers next to
// it, which translate requests, adapt them to the server, and decode its responses.
package upstream
