"""One wheel for every Python: it holds programs, no extension modules."""
import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Native(Distribution):
    def has_ext_modules(self):
        return True  # its files belong to one platform


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", "linux_" + os.environ["BURNISH_ARCHITECTURE"]


setup(version=os.environ["BURNISH_VERSION"], distclass=Native, cmdclass={"bdist_wheel": Wheel})
