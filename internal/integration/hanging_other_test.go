// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package integration_test

import "testing"

// hanging returns "": where a full backlog refuses connections, no address hangs.
func hanging(*testing.T) string { return "" }
