// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream is who stands behind the handler: presets and what they need, and the
// layers next to it, which translate, make requests right for its server, and unpack its
// answers.
package upstream
