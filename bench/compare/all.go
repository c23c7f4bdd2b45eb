package compare

import "slices"

// All returns every scenario, in the order in which they are run.
func All() []Scenario {
	return slices.Concat(
		PutScenarios(),
		LatencyScenarios(),
		ReadScenarios(),
		OpenScenarios(),
		QueueScenarios(),
		MixedScenarios(),
		MigrateScenarios(),
		LayoutScenarios(),
		WriteModeScenarios(),
		ReadModeScenarios(),
		WalkScenarios(),
		TagFilterScenarios(),
		IndexKindScenarios(),
		StageScenarios(),
	)
}
