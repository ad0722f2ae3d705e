"""Every link of the README and of the documents leads to something."""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop()) if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")


class Links(unittest.TestCase):
    def test_no_link_leads_nowhere(self):
        documents = [os.path.join(ROOT, "README.md")]
        documents += [os.path.join(ROOT, "docs", name) for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")]
        broken = []
        seen = 0
        for document in documents:
            with open(document, encoding="utf-8") as file:
                for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read()):
                    seen += 1
                    if "://" not in target and not os.path.exists(os.path.join(os.path.dirname(document), target)):
                        broken.append(f"{os.path.relpath(document, ROOT)}: {target}")
        self.assertGreater(seen, 0)
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
