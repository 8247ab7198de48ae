// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import _ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
