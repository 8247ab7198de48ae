// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package keepalive

// weights are the coefficients of the model of pauses. They were fitted on
// recorded conversations by
//
//	go test ./keepalive -run TestFitChance -fit -v
var weights = features{termOne: -0.26, termTool: 0.64, termFirst: -0.63, termAge: -0.38, termAge + 1: -0.04, termAge + 2: 0.07}
